"""The layout of a declared message in one version: its fields in order, and the encoding of each.

Two modules build on it with a `Vocabulary` each: the constructs of `protocol.reference`, and the programs of the codec
(codec_program.py), which do not need construct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field, Message, Struct


class Vocabulary(Protocol):
    """Builds the parts of a layout, innermost first.

    `path` is the place of the part in the message. `compact`: the length is an unsigned varint of itself plus one
    (KIP-482); `nullable`: it may be -1.
    """

    def fixed(self, path: str, type_name: str) -> Any:
        """A value of fixed width: numbers, booleans, UUIDs."""

    def prefixed(self, path: str, type_name: str, compact: bool, nullable: bool) -> Any:
        """A string, bytes or records after their length."""

    def array(self, path: str, element: Any, compact: bool, nullable: bool) -> Any:
        """Elements after their count."""

    def nullable_struct(self, path: str, struct: Any, is_tagged: bool) -> Any:
        """A struct that may be null."""

    def struct(
        self,
        path: str,
        cls: type[Struct],
        version: int,
        *,
        members: list[tuple[Field, Any]],
        absent: list[Field],
        known: list[tuple[Field, Any]] | None,
        misplaced: frozenset[int],
    ) -> Any:
        """The fields in their order, those that the version cannot carry, and the tagged ones by ascending tag, None
        where it has no tags; `misplaced` are the tags of other versions.
        """


def message_layout(make: Vocabulary, message_type: type[Message], version: int) -> Any:
    """The layout of this version of a message. Raises ValueError for a version that does not exist."""
    if not message_type.versions.has(version):
        raise ValueError(f"{message_type.__name__} has versions {message_type.versions}, not {version}")
    return struct_layout(make, message_type, message_type, version)


def struct_layout(make: Vocabulary, message_type: type[Message], cls: type[Struct], version: int) -> Any:
    """The layout of a struct of a message."""
    return _struct(make, "", cls, version, message_type.flexible_versions.has(version))


def _struct(make: Vocabulary, path: str, cls: type[Struct], version: int, flexible: bool) -> Any:
    members: list[tuple[Field, Any]] = []
    absent: list[Field] = []
    known: list[tuple[Field, Any]] = []
    misplaced: set[int] = set()
    for field in cls.fields:
        is_tagged = flexible and field.tagged.has(version)
        if field.tag >= 0 and not is_tagged:
            misplaced.add(field.tag)
        if not field.versions.has(version):
            absent.append(field)
        else:
            value = _value(make, path + field.name, field, version, flexible)
            (known if is_tagged else members).append((field, value))
    return make.struct(
        path,
        cls,
        version,
        members=members,
        absent=absent,
        known=sorted(known, key=lambda entry: entry[0].tag) if flexible else None,
        misplaced=frozenset(misplaced),
    )


def _value(make: Vocabulary, path: str, field: Field, version: int, flexible: bool) -> Any:
    nullable = field.nullable.has(version)
    compact = flexible and (field.flexible is None or field.flexible.has(version))
    if field.is_array:
        return make.array(
            path, _element(make, path, field, version, compact=compact, nullable=False), compact, nullable
        )
    element = _element(make, path, field, version, compact=compact, nullable=nullable)
    if field.struct is not None and nullable:
        return make.nullable_struct(path, element, flexible and field.tagged.has(version))
    return element


def _element(
    make: Vocabulary, path: str, field: Field, version: int, *, compact: bool, nullable: bool
) -> Any:
    if field.struct is not None:
        return _struct(make, f"{path}.", field.struct, version, compact)
    if field.type in {"string", "bytes", "records"}:
        return make.prefixed(path, field.type, compact, nullable)
    return make.fixed(path, field.type)
