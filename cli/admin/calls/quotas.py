"""Client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.client import CONTROLLER, AdminClient, every_code
from barnabas.cli.admin.errors import check
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)
"""In the order in which Kafka's tools name them."""

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2

Entity = Mapping[str, str | None]
"""The entity of a quota: a name for each type, None for the default."""


class Quota(NamedTuple):
    """The quotas of one entity, by their names (`producer_byte_rate` ...)."""

    entity: Entity
    values: Mapping[str, float]

    @property
    def sort_key(self) -> tuple[tuple[bool, bool, str], ...]:
        """By type, then by name, defaults last."""
        return tuple(
            (kind not in self.entity, self.entity.get(kind) is None, self.entity.get(kind) or "")
            for kind in ENTITY_TYPES
        )


class Component(NamedTuple):
    """A filter of entities by one type: with this name, the default (DEFAULT), or any (ANY)."""

    entity_type: str
    match_type: int
    name: str | None = None

    @classmethod
    def of(cls, entity_type: str, name: str | None) -> Component:
        """The entity of this name, or the default."""
        return cls(entity_type, DEFAULT if name is None else EXACT, name)


def describe_quotas(client: AdminClient, components: Sequence[Component], *, strict: bool) -> list[Quota]:
    """The quotas that match all components, sorted; `strict` excludes entities with further types."""
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(
                entity_type=each.entity_type, match_type=each.match_type, match=each.name
            )
            for each in components
        ],
        strict=strict,
    )
    answer = client.send(request)
    check(answer.error_code, answer.error_message)
    quotas = [_quota(entry) for entry in answer.entries or ()]
    return sorted(quotas, key=lambda quota: quota.sort_key)


def _quota(entry: Any) -> Quota:
    entity = {each.entity_type: each.entity_name for each in entry.entity}
    return Quota(entity, {each.key: each.value for each in sorted(entry.values, key=lambda value: value.key)})


def alter_quotas(client: AdminClient, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Sets quotas of one entity, and removes those whose value is None. Raises ServerError."""
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ],
            )
        ]
    )
    answer = client.send(request, CONTROLLER, codes=every_code)
    for entry in answer.entries:
        check(entry.error_code, entry.error_message)
