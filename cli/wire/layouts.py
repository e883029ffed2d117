"""Messages and APIs by their names, and the layout of a message in one version, as text and as JSON."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol import messages
from barnabas.protocol.api_keys import ApiKey, request_header_version, request_type, response_header_version
from barnabas.protocol.reference import (
    COMPACT_LENGTH,
    KafkaArray,
    NullableStruct,
    Prefixed,
    StructOf,
    TaggedFields,
    layout,
)
from barnabas.protocol.schema import Field, Message, Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from construct.core import Construct

INDENT = "  "
NAME_WIDTH = 44
TYPE_WIDTH = 30
MOST_NEAR_NAMES: Final = 5


class UnknownNameError(Exception):
    """No message, API or version has this name; the text lists similar names."""


@cache
def message_types() -> dict[str, type[Message]]:
    """Every message by its name, in order of modules and declarations."""
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        for value in vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[value.__name__] = value
    return found


def find_message(name: str) -> type[Message]:
    """The message of that name, in any case. Raises UnknownNameError."""
    by_name = {known.lower(): message for known, message in message_types().items()}
    found = by_name.get(name.lower())
    if found is None:
        raise UnknownNameError(f"no message is named {name!r}{_near(name, message_types())}")
    return found


def version_of(message_type: type[Message], version: int | None) -> int:
    """The version, by default the latest. Raises UnknownNameError for one that does not exist."""
    if message_type.versions.high < message_type.versions.low:
        raise UnknownNameError(f"{message_type.__name__} has no versions in Kafka 4.3")
    if version is None:
        return message_type.versions.high
    if not message_type.versions.has(version):
        raise UnknownNameError(f"{message_type.__name__} has versions {message_type.versions}, not {version}")
    return version


def find_api(text: str) -> ApiKey:
    """The API of that name or number: `Fetch`, `FETCH`, `list_offsets`, `1`. Raises UnknownNameError."""
    if text.isascii() and text.isdigit():
        try:
            return ApiKey(int(text))
        except ValueError:
            raise UnknownNameError(f"Kafka 4.3 has no API with the key {text}") from None
    wanted = text.replace("_", "").replace("-", "").lower()
    for key in ApiKey:
        if key.title.lower() == wanted:
            return key
    raise UnknownNameError(f"no API is named {text!r}{_near(text, [key.title for key in ApiKey])}")


def _near(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: names with this prefix, then those of similar spelling, then those that contain it."""
    by_lower = {each.lower(): each for each in known}
    wanted = name.lower()
    begins = [each for each in by_lower if wanted and each.startswith(wanted)]
    contains = [each for each in by_lower if len(wanted) > 2 and wanted in each]
    alike = difflib.get_close_matches(wanted, by_lower, n=MOST_NEAR_NAMES)
    near = list(dict.fromkeys([*sorted(begins, key=len), *alike, *sorted(contains, key=len)]))[
        :MOST_NEAR_NAMES
    ]
    return f"; similar: {', '.join(by_lower[each] for each in near)}" if near else ""


# ---- layouts


def type_text(field: Field, value: Construct) -> str:
    """The type of a field on the wire: `compact nullable string`, `array of FetchTopic`."""
    kind = field.struct.__name__ if field.struct is not None else field.type
    if isinstance(value, KafkaArray):
        return f"{_prefix_text(value)}array of {_element_prefix(value.element)}{kind}"
    if isinstance(value, Prefixed):
        return f"{_prefix_text(value)}{kind}"
    return f"nullable {kind}" if isinstance(value, NullableStruct) else kind


def _prefix_text(value: Prefixed) -> str:
    compact = "compact " if value.length is COMPACT_LENGTH else ""
    return f"{compact}nullable " if value.nullable else compact


def _element_prefix(element: Construct) -> str:
    return _prefix_text(element) if isinstance(element, Prefixed) else ""


def struct_in(value: Construct) -> StructOf | None:
    """The struct of a field or of the elements of its array."""
    if isinstance(value, KafkaArray):
        value = value.element
    if isinstance(value, NullableStruct):
        value = value.struct
    return value if isinstance(value, StructOf) else None


def text_lines(message_type: type[Message], version: int) -> Iterator[str]:
    """The layout as text."""
    yield f"{message_type.__name__} version {version}"
    yield f"{INDENT}{summary_of(message_type, version)}"
    if message_type.__doc__:
        yield from (INDENT + line.strip() for line in message_type.__doc__.strip().splitlines())
    yield ""
    yield from _struct_lines(layout(message_type, version), 0)


def summary_of(message_type: type[Message], version: int) -> str:
    """The versions, the API key or record type, and the header before the message."""
    parts = [f"versions {message_type.versions}"]
    if message_type.latest_unstable:
        parts[0] += f" ({message_type.versions.high} is not final)"
    flexible = message_type.flexible_versions
    is_flexible = flexible.has(version)
    parts.append(f"flexible from {flexible.low}" if flexible.low <= flexible.high else "never flexible")
    parts.append("compact lengths and tagged fields here" if is_flexible else "no tagged fields here")
    header = header_of(message_type, version)
    if header is not None:
        parts.append(f"API key {message_type.api_key}, behind {header}")
    elif message_type.api_key is not None:
        parts.append(f"record type {message_type.api_key}")
    return "; ".join(parts)


def header_of(message_type: type[Message], version: int) -> str | None:
    """The header before a request or a response; None for all other messages."""
    key = message_type.api_key
    if key is None or key not in {each.value for each in ApiKey}:
        return None
    stem = request_type(key).__name__.removesuffix("Request")
    if message_type.__name__ == f"{stem}Request":
        return f"RequestHeader v{request_header_version(key, version)}"
    if message_type.__name__ == f"{stem}Response":
        return f"ResponseHeader v{response_header_version(key, version)}"
    return None


def _struct_lines(struct: StructOf, depth: int) -> Iterator[str]:
    for field, value in struct.members:
        yield from _field_lines(field, value, depth, "")
    if struct.tagged is not None:
        for tag, (field, value) in struct.tagged.known.items():
            yield from _field_lines(field, value, depth, f"tag {tag}")
        if not struct.tagged.known and not struct.members:
            yield f"{INDENT * depth}(tagged fields only, none declared)"
    if struct.absent:
        absent = ", ".join(f"{field.name} ({field.versions})" for field in struct.absent)
        yield f"{INDENT * depth}not in this version: {absent}"


def _field_lines(field: Field, value: Construct, depth: int, tag: str) -> Iterator[str]:
    notes = [tag, f"versions {field.versions}", _default_text(field)]
    name = f"{INDENT * depth}{field.name}".ljust(NAME_WIDTH)
    kind = type_text(field, value).ljust(TYPE_WIDTH)
    yield f"{name} {kind} {'; '.join(filter(None, notes))}".rstrip()
    inner = struct_in(value)
    if inner is not None:
        yield from _struct_lines(inner, depth + 1)


def _default_text(field: Field) -> str:
    default = field.make_default()
    if field.default is None:
        return "default null"
    if isinstance(default, list | Struct) or not default or isinstance(default, bytes):
        return ""
    return f"default {default}"


def as_json(message_type: type[Message], version: int) -> dict[str, Any]:
    """The layout as JSON."""
    header = header_of(message_type, version)
    return {
        "type": "message-layout",
        "name": message_type.__name__,
        "version": version,
        "versions": str(message_type.versions),
        "flexible_versions": str(message_type.flexible_versions),
        "latest_unstable": message_type.latest_unstable,
        "api_key": message_type.api_key,
        "header": header,
        "doc": " ".join((message_type.__doc__ or "").split()),
        **_struct_json(layout(message_type, version)),
    }


def _struct_json(struct: StructOf) -> dict[str, Any]:
    tagged: TaggedFields | None = struct.tagged
    return {
        "fields": [_field_json(field, value) for field, value in struct.members],
        "tagged_fields": None
        if tagged is None
        else [{"tag": tag, **_field_json(*entry)} for tag, entry in tagged.known.items()],
        "absent_fields": [{"name": field.name, "versions": str(field.versions)} for field in struct.absent],
    }


def _field_json(field: Field, value: Construct) -> dict[str, Any]:
    default = field.make_default()
    found: dict[str, Any] = {
        "name": field.name,
        "type": type_text(field, value),
        "versions": str(field.versions),
        "nullable": isinstance(value, NullableStruct) or (isinstance(value, Prefixed) and value.nullable),
        "default": None if isinstance(default, bytes | list | Struct) else default,
    }
    inner = struct_in(value)
    if inner is not None:
        found["struct"] = {"name": inner.cls.__name__, **_struct_json(inner)}
    return found
