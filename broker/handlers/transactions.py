"""InitProducerId: an id for an idempotent producer. Transactional ids are refused until their coordinator is here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.request import Pending, RequestContext, api
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from broker.services import Broker

logger = logging.getLogger("barnabas.transactions")


@api(ApiKey.INIT_PRODUCER_ID, versions=(0, 5))
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    if request.transactional_id is not None:
        if not request.transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        logger.warning(
            "client %s asked for transactions (transactional.id %s), which this broker does not serve yet",
            context.client_id,
            request.transactional_id,
        )
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return broker.producer_ids.generate().then(_response)


def _response(producer_id: int | None) -> InitProducerIdResponse:
    if producer_id is None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
