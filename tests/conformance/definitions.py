"""Apache Kafka's message definitions from its released jars, and the layout that they give each version.

A definition has the type, versions, nullable and tagged versions, tag, default and ignorability of every field.
The generator of Kafka's build fills in what is left out; this module repeats its rules, so that `rows` returns the
fields of one version in the order of the wire.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import Any, NamedTuple

from barnabas.protocol.schema import NO_VERSIONS, VersionRange, version_range
from tests.conformance.kafka_jars import require_jar

JARS = (
    "kafka-clients",
    "kafka-metadata",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-raft",
    "kafka-storage",
)
ZERO_VALUES: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "uuid": bytes(16), "float64": 0.0}


def snake_case(name: str) -> str:
    """Our name for a field: TopicId is topic_id, KRaftVersion is kraft_version."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def json_name(name: str) -> str:
    """Kafka's name for a field in the JSON form of a message."""
    return name[0].lower() + name[1:]


class FieldDefinition(NamedTuple):
    """One field, with the defaults of the generator filled in."""

    name: str
    type: str
    versions: VersionRange
    nullable: VersionRange
    tagged: VersionRange
    tag: int
    default: Any
    ignorable: bool
    flexible: VersionRange | None

    @property
    def element(self) -> str:
        """The type without the brackets of an array."""
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")


class Definition(NamedTuple):
    """A message: its class in Kafka, its fields, and the fields of its structs."""

    name: str
    kind: str
    java_class: str
    api_key: int | None
    versions: VersionRange
    flexible: VersionRange
    latest_unstable: bool
    fields: tuple[FieldDefinition, ...]
    structs: dict[str, tuple[FieldDefinition, ...]]


@cache
def definitions() -> dict[str, Definition]:
    """All messages that still have a version, by name."""
    found: dict[str, Definition] = {}
    for artifact in JARS:
        with zipfile.ZipFile(require_jar(artifact)) as jar:
            entries = jar.namelist()
            for entry in entries:
                if entry.endswith(".json"):
                    definition = _definition(_without_comments(jar.read(entry).decode()), entries)
                    if definition.versions != NO_VERSIONS:
                        assert definition.name not in found
                        found[definition.name] = definition
    return found


def _without_comments(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return loaded


def _definition(raw: dict[str, Any], entries: list[str]) -> Definition:
    structs: dict[str, tuple[FieldDefinition, ...]] = {}
    for common in raw.get("commonStructs", ()):
        structs[common["name"]] = _fields(common["fields"], structs)
    return Definition(
        name=raw["name"],
        kind=raw["type"],
        java_class=_java_class(raw["name"], entries),
        api_key=raw.get("apiKey"),
        versions=version_range(raw["validVersions"]),
        flexible=version_range(raw.get("flexibleVersions", "none")),
        latest_unstable=bool(raw.get("latestVersionUnstable", False)),
        fields=_fields(raw.get("fields", ()), structs),
        structs=structs,
    )


def _java_class(name: str, entries: list[str]) -> str:
    """Kafka's class: XData for requests, responses and headers, else the name of the definition."""
    suffixes = (f"/{name}Data.class", f"/{name}.class")
    classes = [entry for suffix in suffixes for entry in entries if entry.endswith(suffix)]
    return classes[0].removesuffix(".class").replace("/", ".") if classes else ""


def _fields(raw: Any, structs: dict[str, tuple[FieldDefinition, ...]]) -> tuple[FieldDefinition, ...]:
    return tuple(_field(field, structs) for field in raw)


def _field(raw: dict[str, Any], structs: dict[str, tuple[FieldDefinition, ...]]) -> FieldDefinition:
    element = raw["type"].removeprefix("[]")
    if "fields" in raw:
        assert element not in structs
        structs[element] = _fields(raw["fields"], structs)
    tagged = version_range(raw.get("taggedVersions", "none"))
    return FieldDefinition(
        name=raw["name"],
        type=raw["type"],
        versions=version_range(raw["versions"]) if "versions" in raw else tagged,
        nullable=version_range(raw.get("nullableVersions", "none")),
        tagged=tagged,
        tag=raw.get("tag", -1),
        default=_default(raw),
        ignorable=raw.get("ignorable", False),
        flexible=version_range(raw["flexibleVersions"]) if "flexibleVersions" in raw else None,
    )


def _default(raw: dict[str, Any]) -> Any:
    """The default as a Python value; "struct" for a struct, whose fields have their own defaults.

    The text "null" is a null. For a null of JSON itself Kafka's generator takes the zero value of the type: four fields
    have one, probably by mistake.
    """
    kind, given = raw["type"], raw.get("default")
    text = "" if given is None else str(given)
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "records":
        return None
    if kind[0].isupper():
        return "struct"
    if text == "":
        return ZERO_VALUES.get(kind, 0)
    if kind == "bool":
        return text.lower() == "true"
    return text if kind == "string" else float(text) if kind == "float64" else int(text, 0)


class Row(NamedTuple):
    """One field in one version: its path, its type, and its encoding."""

    path: str
    type: str
    nullable: bool
    compact: bool
    tag: int | None


def rows(definition: Definition, version: int) -> list[Row]:
    """The layout of this version: first the fields in order, then the tagged ones by tag."""
    return _rows(definition, definition.fields, version, "")


def _rows(definition: Definition, fields: tuple[FieldDefinition, ...], version: int, path: str) -> list[Row]:
    flexible = definition.flexible.has(version)
    present = [field for field in fields if field.versions.has(version)]
    plain = [field for field in present if not field.tagged.has(version)]
    tagged = sorted((field for field in present if field.tagged.has(version)), key=lambda field: field.tag)
    table: list[Row] = []
    for field in plain + tagged:
        where = path + snake_case(field.name)
        compact = flexible and (field.flexible is None or field.flexible.has(version))
        tag = field.tag if field in tagged else None
        table.append(Row(where, field.type, field.nullable.has(version), compact, tag))
        if field.element in definition.structs:
            table += _rows(definition, definition.structs[field.element], version, where + ".")
    return table
