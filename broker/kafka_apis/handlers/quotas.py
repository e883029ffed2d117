"""DescribeClientQuotas and AlterClientQuotas. broker.quotas enforces what they set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.quota_admin import (
    Outcomes,
    QuotaAlteration,
    QuotaFilter,
    alter_quotas,
    hosts_in,
)
from barnabas.broker.metadata.image import MetadataImage, QuotaEntity
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@api(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1))
def describe_client_quotas(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        wanted = QuotaFilter(
            ((item.entity_type, item.match_type, item.match) for item in request.components),
            strict=request.strict,
        )
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(
        entries=[
            DescribeClientQuotasResponse.EntryData(
                entity=[
                    DescribeClientQuotasResponse.EntityData(entity_type=entity_type, entity_name=name)
                    for entity_type, name in entity
                ],
                values=[
                    DescribeClientQuotasResponse.ValueData(key=key, value=value)
                    for key, value in limits.items()
                ],
            )
            for entity, limits in broker.image.quotas.items()
            if wanted.matches(entity)
        ],
    )


@api(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), forwardable=True)
def alter_client_quotas(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> Pending[AlterClientQuotasResponse]:
    alterations = [
        QuotaAlteration(
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    answer: Pending[AlterClientQuotasResponse] = Pending()

    def all_rejected(error: ApiError) -> AlterClientQuotasResponse:
        return _answer({alteration.entity: error for alteration in alterations})

    def submit(hosts: frozenset[str]) -> None:
        def decide(image: MetadataImage) -> Decision[AlterClientQuotasResponse]:
            records, outcomes = alter_quotas(image.quotas, alterations, hosts.__contains__)
            return Decision(_answer(outcomes), [] if request.validate_only else records)

        broker.controller.change("The quotas", decide, all_rejected).add_done_callback(answer.complete)

    broker.host_names.known(hosts_in(alterations)).add_done_callback(submit)
    return answer


def _answer(outcomes: Outcomes) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[_entry(entity, error) for entity, error in outcomes.items()],
    )


def _entry(entity: QuotaEntity, error: ApiError | None) -> AlterClientQuotasResponse.EntryData:
    return AlterClientQuotasResponse.EntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[
            AlterClientQuotasResponse.EntityData(entity_type=entity_type, entity_name=name)
            for entity_type, name in entity
        ],
    )
