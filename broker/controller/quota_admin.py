"""The rules of client quotas: pure functions from an image and a request to records and results.

Source: org.apache.kafka.controller.ClientQuotaControlManager, org.apache.kafka.image.ClientQuotasImage (KIP-546,
KIP-612).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.broker.metadata.image import QuotaEntity, quota_record
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.waiting.host_lookup import is_address
from barnabas.config.catalogue.resources import client_quota_keys, ip_quota_keys
from barnabas.config.keys import ConfigKey
from barnabas.config.values import ConfigType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import ClientQuotaRecord

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2
"""DescribeClientQuotas: the entity has this name; it is the default of its type; it has any name or is the default."""


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
EntityParts = Sequence[tuple[str, str | None]]
Component = tuple[str, int, str | None]
"""A component of a filter: the type of entity, the match type, and the name to match exactly."""

_LARGEST: Final = {
    # The largest long is no double: Kafka compares with the one next to it, 2^63.
    ConfigType.INT: float((1 << 31) - 1),
    ConfigType.LONG: float(1 << 63),
}
_WORDS: Final = {ConfigType.INT: "an INT", ConfigType.LONG: "a LONG"}
_FRACTION_LIMIT: Final = 1e-6


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of these types and names; of a type that is named twice the last one counts, as in Kafka."""
    return tuple(sorted(dict(parts).items()))


# ---- describing


class QuotaFilter:
    """The filter of DescribeClientQuotas. Raises ApiError(INVALID_REQUEST, UNSUPPORTED_VERSION) for an invalid one.

    An entity matches that has every part in `components`, and with a strict filter no other part.
    """

    def __init__(self, components: Iterable[Component], *, strict: bool) -> None:
        self._exact: dict[str, str | None] = {}
        self._specified: set[str] = set()
        self._strict = strict
        for component in components:
            self._add(*component)
        named = self._exact.keys() | self._specified
        if IP in named and len(named) > 1:
            raise _invalid(
                "Invalid entity filter component combination: a filter for addresses cannot ask for users or client "
                "ids as well."
            )

    def _add(self, entity_type: str, match_type: int, match: str | None) -> None:
        if not entity_type:
            raise _invalid("Invalid empty entity type.")
        if entity_type in self._exact or entity_type in self._specified:
            raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        if match_type == MATCH_EXACT:
            if match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            self._exact[entity_type] = match
        elif match_type not in {MATCH_DEFAULT, MATCH_SPECIFIED}:
            raise _invalid(f"Unknown match type {match_type}")
        elif match is not None:
            kind = "DEFAULT" if match_type == MATCH_DEFAULT else "SPECIFIED"
            raise _invalid(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
        elif match_type == MATCH_DEFAULT:
            self._exact[entity_type] = None
        else:
            self._specified.add(entity_type)

    def matches(self, entity: QuotaEntity) -> bool:
        parts = dict(entity)
        if self._strict and len(parts) != len(self._exact) + len(self._specified):
            return False
        if not self._specified <= parts.keys():
            return False
        return all(name in parts and parts[name] == match for name, match in self._exact.items())


# ---- altering


class QuotaAlteration:
    """The alteration of one entity: `ops` are keys with their new values, None to remove."""

    def __init__(self, parts: EntityParts, ops: Sequence[tuple[str, float | None]]) -> None:
        self.entity = entity_of(parts)
        self.ops = ops


Outcomes = dict[QuotaEntity, ApiError | None]
"""Why an entity's quotas were not altered; None where they were."""


def alter_quotas(
    quotas: Quotas, alterations: Iterable[QuotaAlteration], is_host: Callable[[str], bool]
) -> tuple[list[ClientQuotaRecord], Outcomes]:
    """Decides on each alteration: the records of the valid ones, and the outcome for each entity.

    `is_host` says whether a name that is no address is the name of a host. An entity that is named twice is rejected,
    but its first alteration is made, as in Kafka. Raises ApiError(POLICY_VIOLATION) for too many records.
    """
    records: list[ClientQuotaRecord] = []
    outcomes: Outcomes = {}
    for alteration in alterations:
        entity = alteration.entity
        if entity in outcomes:
            outcomes[entity] = _invalid(
                f"Ignoring duplicate entity: {entity_text(entity)} is in the request more than once."
            )
            continue
        try:
            records += _records_of(quotas.get(entity, {}), alteration, is_host)
        except ApiError as error:
            outcomes[entity] = error
        else:
            outcomes[entity] = None
    if len(records) > MAX_RECORDS_PER_USER_OP:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may alter {MAX_RECORDS_PER_USER_OP} quotas, not {len(records)}.",
        )
    return records, outcomes


def _records_of(
    current: Mapping[str, float], alteration: QuotaAlteration, is_host: Callable[[str], bool]
) -> list[ClientQuotaRecord]:
    """The records of one alteration, none for unchanged values. Raises ApiError."""
    keys = _keys_for(alteration.entity, is_host)
    values = dict(alteration.ops)
    if len(values) < len(alteration.ops):
        raise _invalid(f"A quota of {entity_text(alteration.entity)} is altered twice.")
    records = []
    for name, value in values.items():
        if value is None:
            if name in current:
                records.append(quota_record(alteration.entity, name, 0.0, remove=True))
            continue
        _check_value(keys, name, value)
        if name not in current or _bits(current[name]) != _bits(value):
            records.append(quota_record(alteration.entity, name, value))
    return records


def _bits(value: float) -> bytes:
    """Kafka compares boxed doubles: NaNs are equal."""
    return struct.pack(">d", math.nan if math.isnan(value) else value)


def _keys_for(entity: QuotaEntity, is_host: Callable[[str], bool]) -> Mapping[str, ConfigKey[Any]]:
    """The quotas that the entity can have. Raises ApiError for an invalid entity."""
    parts = dict(entity)
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    for entity_type, name in entity:
        if entity_type not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _invalid(f"Empty {entity_type} not supported")
    if IP not in parts:
        return client_quota_keys.by_name
    if len(parts) > 1:
        raise _invalid(
            "Invalid quota entity combination: quotas of an address cannot be narrowed down to users or client ids."
        )
    address = parts[IP]
    if address is not None and not is_address(address) and not is_host(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return ip_quota_keys.by_name


def _check_value(keys: Mapping[str, ConfigKey[Any]], name: str, value: float) -> None:
    key = keys.get(name)
    if key is None:
        raise _invalid(f"Invalid configuration key {name} for such an entity.")
    if value <= 0:
        raise _invalid(f"Quota {name} must be greater than 0")
    if key.type is ConfigType.DOUBLE:
        return
    if value > _LARGEST[key.type]:
        raise _invalid(f"Proposed value for {name} is too large for {_WORDS[key.type]}: {value}")
    if math.isfinite(value) and math.fmod(value, 1.0) > _FRACTION_LIMIT:
        raise _invalid(f"{name} cannot be a fractional value: {value}")


def hosts_in(alterations: Iterable[QuotaAlteration]) -> set[str]:
    """The names of hosts that have to be looked up before `alter_quotas` can decide."""
    names = (dict(alteration.entity).get(IP) for alteration in alterations)
    return {name for name in names if name and not is_address(name)}


def entity_text(entity: QuotaEntity) -> str:
    """The entity as text: user 'alice', client-id <default>."""
    return ", ".join(
        f"{entity_type} {'<default>' if name is None else repr(name)}" for entity_type, name in entity
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
