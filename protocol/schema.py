"""How a message is declared: one class for all its versions, one line a field.

    class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
        group_id: str = string()
        generation_id: int = int32()
        member_id: str = string()
        group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)

The line gives the type in Python (the annotation, which mypy reads) and the type on the wire with the
versions that have the field (the call). Structs are nested in the message that uses them, and a field names
its struct by a string, because a class body cannot see the one around it:
`topics: list[Outer.Topic] = array("Topic")`.

The classes are plain: slots for attributes, a constructor with keywords that is compiled when it is first
called, equality field by field. The layout of a version is in `protocol.reference`, built from
`cls.fields`. The vocabulary is that of Kafka's own message definitions (`common/message/*.json` in its jars).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, ParamSpec, TypeVar, dataclass_transform

from barnabas.protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    Element = str | Callable[..., Any]

MAX_VERSION = 32767


class VersionRange(NamedTuple):
    """The versions `low` to `high`, both included; empty when `high` is below `low`."""

    low: int
    high: int

    def has(self, version: int) -> bool:
        """Whether `version` is one of them."""
        return self.low <= version <= self.high

    def __str__(self) -> str:
        if self.high < self.low:
            return "none"
        if self.high == MAX_VERSION:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NO_VERSIONS: Final = VersionRange(0, -1)
_RANGES: dict[str, VersionRange] = {"none": NO_VERSIONS, "0+": VersionRange(0, MAX_VERSION)}


def version_range(text: str) -> VersionRange:
    """The range that Kafka's notation means: "3", "3-5", "3+" or "none"."""
    found = _RANGES.get(text)
    if found is None:
        low, dash, high = text.partition("-")
        if text.endswith("+"):
            found = VersionRange(int(text[:-1]), MAX_VERSION)
        else:
            found = VersionRange(int(low), int(high) if dash else int(low))
        _RANGES[text] = found
    return found


UNSET: Final[Any] = object()
"""Marks an absent argument where None is a value."""

_ZERO_VALUES: Final[dict[str, Any]] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "uint32": 0,
    "int64": 0,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
    "records": None,
}


class Field:
    """One field of a struct, in all its versions.

    `type` is Kafka's name of the type without the brackets of an array ("int32", "string", or the name of a
    struct, whose class is then `struct`); `is_array` says whether there are brackets. `tag` is -1 for a field
    that is never tagged. `flexible` is None if the message's own flexible versions apply: always but for
    the client id in a request header.
    """

    __slots__ = (
        "default",
        "flexible",
        "ignorable",
        "is_array",
        "name",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "type",
        "versions",
    )

    def __init__(  # noqa: PLR0917 - called 2,000 times at import, and keywords cost a third more
        self,
        type_name: str,
        is_array: bool,
        versions: str,
        nullable: str,
        default: Any,
        ignorable: bool,
        tag: int,
        tagged: str,
        flexible: str | None = None,
    ) -> None:
        self.name = ""
        self.type = type_name
        self.is_array = is_array
        self.struct: type[Struct] | None = None
        self.versions = version_range(versions)
        self.nullable = version_range(nullable)
        self.default = default
        self.ignorable = ignorable
        self.tag = tag
        self.tagged = version_range(tagged)
        self.flexible = None if flexible is None else version_range(flexible)

    def make_default(self) -> Any:
        """The default value of this field.

        An array is a new list each time. A struct is one shared, immutable object: assign a new struct to set such a
        field.
        """
        if self.default is not UNSET:
            return self.default
        if self.is_array:
            return []
        if self.struct is not None:
            return default_struct(self.struct)
        return _ZERO_VALUES[self.type]

    def __repr__(self) -> str:
        brackets = "[]" if self.is_array else ""
        return f"Field({self.name}: {brackets}{self.type}, versions {self.versions})"


def _specifier(type_name: str) -> Callable[..., Any]:
    def declare(
        *,
        versions: str = "0+",
        nullable: str = "none",
        default: Any = UNSET,
        ignorable: bool = False,
        tag: int = -1,
        tagged: str = "none",
        flexible: str | None = None,
    ) -> Any:
        return Field(type_name, False, versions, nullable, default, ignorable, tag, tagged, flexible)

    declare.__name__ = declare.__qualname__ = type_name
    return declare


bool_ = _specifier("bool")
int8 = _specifier("int8")
int16 = _specifier("int16")
uint16 = _specifier("uint16")
int32 = _specifier("int32")
uint32 = _specifier("uint32")
int64 = _specifier("int64")
float64 = _specifier("float64")
string = _specifier("string")
bytes_ = _specifier("bytes")
uuid = _specifier("uuid")
records = _specifier("records")


def array(
    element: Element,
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int = -1,
    tagged: str = "none",
) -> Any:
    """A list of `element`: a primitive by its function (`array(int32)`), or a struct by its name."""
    type_name = element if isinstance(element, str) else element.__name__
    return Field(type_name, True, versions, nullable, default, ignorable, tag, tagged)


def struct(
    name: str,
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int = -1,
    tagged: str = "none",
) -> Any:
    """One struct of this message, by its name."""
    return Field(name, False, versions, nullable, default, ignorable, tag, tagged)


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Turns the fields of the class body into slots."""

    fields: tuple[Field, ...]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **declared: Any
    ) -> StructMeta:
        fields = []
        for key, value in body.items():
            if type(value) is Field:
                value.name = key
                fields.append(value)
        names = [field.name for field in fields]
        for key in names:
            del body[key]
        body.setdefault("__slots__", names)
        cls = super().__new__(mcls, name, bases, body)
        cls.fields = tuple(fields)
        if declared:
            _declare_message(cls, body, **declared)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, body)


_S = TypeVar("_S", bound="Struct")
_P = ParamSpec("_P")
_Made = TypeVar("_Made")


class Struct(metaclass=StructMeta):
    """A piece of a message with fields of its own, and the base of all messages.

    `unknown_tagged_fields` has the values of tags that this version does not know, by tag; they are encoded again
    as they came. None: no such tags. `values_of`, made when it is first needed, gets the values of all fields at once.
    """

    __slots__ = ("unknown_tagged_fields",)

    if TYPE_CHECKING:
        fields: ClassVar[tuple[Field, ...]]
        values_of: ClassVar[attrgetter[Any] | None]
        unknown_tagged_fields: dict[int, bytes] | None = None

        @classmethod
        def make(cls: Callable[_P, _Made], *args: _P.args, **values: _P.kwargs) -> _Made:
            """The constructor as a plain function, in half the time: a call of a class makes a dict of the keywords
            first. For handlers, which make many.
            """
    else:
        values_of = None

        def __init__(self, **values: Any) -> None:
            cls = type(self)
            cls.__init__ = _compile_constructor(cls)
            cls.__init__(self, **values)

        @classmethod
        def make(cls, **values: Any) -> Any:
            made = _compile_maker(cls)
            cls.make = staticmethod(made)
            return made(**values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.fields is not self.fields:
            return NotImplemented
        if (self.unknown_tagged_fields or None) != (other.unknown_tagged_fields or None):
            return False
        values_of = self.values_of
        if values_of is None:
            if not self.fields:
                return True
            values_of = type(self).values_of = attrgetter(*[field.name for field in self.fields])
        return bool(values_of(self) == values_of(other))

    __hash__ = None  # type: ignore[assignment]  # they are mutable

    def __repr__(self) -> str:
        values = [f"{field.name}={getattr(self, field.name)!r}" for field in self.fields]
        if self.unknown_tagged_fields:
            values.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__qualname__}({', '.join(values)})"


class Message(Struct):
    """A whole request, response, header, or record of an internal topic.

    `api_key` is the key of the request and response, or the type of the record; None where neither exists.
    `versions` are those that Kafka 4.3 reads and writes, `flexible_versions` those with compact lengths and
    tagged fields. `latest_unstable`: the newest version is not final.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        api_key: ClassVar[int | None]
        versions: ClassVar[VersionRange]
        flexible_versions: ClassVar[VersionRange]
        latest_unstable: ClassVar[bool]


def _declare_message(
    cls: Any,
    body: dict[str, Any],
    *,
    versions: str,
    flexible: str,
    api_key: int | None = None,
    latest_unstable: bool = False,
) -> None:
    cls.api_key = api_key
    cls.versions = version_range(versions)
    cls.flexible_versions = version_range(flexible)
    cls.latest_unstable = latest_unstable
    structs = [value for value in body.values() if type(value) is StructMeta]
    for owner in (cls, *structs):
        for field in owner.fields:
            if field.type not in _ZERO_VALUES:
                field.struct = body[field.type]


def default_struct(cls: type[_S]) -> _S:
    """The shared, immutable instance of `cls` with all defaults."""
    found = _DEFAULT_STRUCTS.get(cls)
    if found is None:
        frozen: Any = StructMeta(cls.__name__, (cls,), {"__slots__": (), "__qualname__": cls.__qualname__})
        frozen.fields = cls.fields
        found = _DEFAULT_STRUCTS[cls] = frozen()
        frozen.__setattr__ = _reject_change
    shared: _S = found
    return shared


_DEFAULT_STRUCTS: dict[type[Struct], Any] = {}


def _reject_change(self: Struct, name: str, value: object) -> None:
    raise AttributeError(
        f"this {type(self).__qualname__} is the default that all messages share: assign a new one instead of "
        f"setting {name} to {value!r}"
    )


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """A keyword constructor, compiled at the first call, since most classes are never constructed."""
    parameters, lines, scope = _assignments(cls)
    return _compiled("__init__", f"self, *, {parameters}", lines, scope, cls)


def _compile_maker(cls: type[Struct]) -> Callable[..., Any]:
    """`Struct.make` of one class: the constructor as a function that makes the object."""
    parameters, lines, scope = _assignments(cls)
    scope |= {"_new": object.__new__, "_cls": cls}
    return _compiled("make", parameters, ["self = _new(_cls)", *lines, "return self"], scope, cls)


def _assignments(cls: type[Struct]) -> tuple[str, list[str], dict[str, Any]]:
    """The parameters of a constructor, its body, and the names that both use."""
    parameters, lines = [], []
    scope: dict[str, Any] = {"_unset": UNSET}
    for field in cls.fields:
        default = field.make_default()
        if isinstance(default, list):
            parameters.append(f"{field.name}=_unset")
            lines.append(f"self.{field.name} = [] if {field.name} is _unset else {field.name}")
        else:
            scope[f"_{field.name}"] = default
            parameters.append(f"{field.name}=_{field.name}")
            lines.append(f"self.{field.name} = {field.name}")
    parameters.append("unknown_tagged_fields=None")
    lines.append("self.unknown_tagged_fields = unknown_tagged_fields")
    return ", ".join(parameters), lines, scope


def _compiled(
    name: str, parameters: str, lines: list[str], scope: dict[str, Any], cls: type[Struct]
) -> Callable[..., Any]:
    source = f"def {name}({parameters}):\n    " + "\n    ".join(lines)
    exec(compile(source, f"<{name} of {cls.__qualname__}>", "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function
