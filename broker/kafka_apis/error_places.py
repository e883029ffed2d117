"""The places of error codes in a response beside its own: in topics, partitions and groups, so that they are counted
as in Kafka (AbstractResponse.errorCounts)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.protocol.schema import Struct

_NAMES: Final = frozenset({"error_code", "partition_error_code"})


class ErrorPlaces:
    """Of the structs in one field: the names of their own error codes, and their fields that hold more."""

    def __init__(self, field: str, codes: Sequence[str], within: Sequence[ErrorPlaces]) -> None:
        self.field = field
        self.codes = codes
        self.within = within


def error_places(message: type[Struct]) -> list[ErrorPlaces]:
    """The fields of a message in whose structs there are error codes, at whatever depth."""
    found = []
    for field in message.fields:
        if field.struct is None:
            continue
        codes = [one.name for one in field.struct.fields if one.name in _NAMES]
        within = error_places(field.struct)
        if codes or within:
            found.append(ErrorPlaces(field.name, codes, within))
    return found


def errors_in(struct: Struct, places: Sequence[ErrorPlaces]) -> Iterator[int]:
    """The error codes at these places but NONE. Parts that are encoded already have none."""
    for place in places:
        elements = getattr(struct, place.field)
        if not isinstance(elements, list):
            continue
        for element in elements:
            if not isinstance(element, Struct):
                continue
            for name in place.codes:
                if code := getattr(element, name):
                    yield code
            if place.within:
                yield from errors_in(element, place.within)
