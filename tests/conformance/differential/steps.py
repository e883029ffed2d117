"""One step of a sequence, and requests reduced to the fields of their version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest
from barnabas.protocol.schema import Field, Message, Struct

BLOCKS: Final = ("aw", "bX", "c9")
PREFIX: Final = "prefix-of-one-sequence-only-"
"""The prefix of names in steps; each run of a sequence replaces it with its own of the same length."""


def prefix_of(run: int) -> str:
    """The prefix of that run. All have the same hash code in Java, so that names have one order in Kafka's hash tables.

    Otherwise what depends on that order (such as assignments) would differ from run to run. 31 * a + b is the same for
    the characters a and b of each block.
    """
    digits = []
    for _ in range(len(PREFIX) // 2):
        run, digit = divmod(run, len(BLOCKS))
        digits.append(BLOCKS[digit])
    return "".join(reversed(digits))


S = TypeVar("S", bound=Struct)


@dataclass(frozen=True)
class Step:
    """One request; `uid` is its index in the original sequence, which stays when other steps are left out."""

    uid: int
    connection: int
    request: Message
    version: int

    @property
    def name(self) -> str:
        """The API and the version."""
        return f"{type(self.request).__name__.removesuffix('Request')} v{self.version}"

    @property
    def may_wait(self) -> bool:
        """Whether the response may wait for other requests."""
        if isinstance(self.request, FetchRequest):
            return self.request.max_wait_ms > 0
        return isinstance(self.request, JoinGroupRequest | SyncGroupRequest)

    def __str__(self) -> str:
        return f"[{self.uid}] connection {self.connection}: {self.name} {shown(self.request)}"


def shown(value: Any) -> str:
    """A request as text, without the fields that have their defaults."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, Struct):
        return repr(value)
    values = {field.name: getattr(value, field.name) for field in value.fields}
    defaults = {field.name: field.make_default() for field in value.fields}
    kept = [f"{name}={shown(known)}" for name, known in values.items() if known != defaults[name]]
    return f"({', '.join(kept)})"


def fit(message: S, version: int) -> S:
    """The message with defaults for fields that the version lacks, and for nulls that it does not allow."""
    return _fit(type(message), message, version)


def _fit(cls: type[S], message: S, version: int) -> S:
    return cls(
        **{field.name: _fit_field(field, getattr(message, field.name), version) for field in message.fields}
    )


def _fit_field(field: Field, value: Any, version: int) -> Any:
    if not field.versions.has(version):
        return field.make_default()
    if value is None:
        return None if field.nullable.has(version) else _without_null(field)
    if field.is_array:
        return [fit(item, version) if isinstance(item, Struct) else item for item in value]
    return value if field.struct is None else _fit(field.struct, value, version)


def _without_null(field: Field) -> Any:
    default = field.make_default()
    if default is not None:
        return default
    if field.is_array:
        return []
    return "" if field.type == "string" else b""
