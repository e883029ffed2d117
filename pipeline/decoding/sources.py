"""Makes a `DecodingSpec` from a schema file or from the registry's latest version of a subject."""

from __future__ import annotations

from pathlib import Path

from barnabas.pipeline.decoding.errors import SchemaError
from barnabas.pipeline.decoding.registry import Registry
from barnabas.pipeline.decoding.spec import DecodingSpec, ValueFormat


def spec_of_file(
    value_format: ValueFormat, path: Path, *, message: str = "", registry_framing: bool = False
) -> DecodingSpec:
    """JSON Schema or Avro as text, or descriptors as protoc writes them. SchemaError, OSError."""
    if value_format == "protobuf":
        from barnabas.pipeline.decoding.protobuf_values import files_of_descriptor_set

        texts = files_of_descriptor_set(path.read_bytes())
    else:
        texts = (path.read_text(),)
    return DecodingSpec(value_format, texts, message, registry_framing)


def spec_of_subject(
    value_format: ValueFormat | None, registry: Registry, subject: str, *, message: str = ""
) -> DecodingSpec:
    """The spec for the latest version. Raises SchemaError when its format is not the requested one, and
    RegistryError."""
    found = registry.latest(subject)
    if value_format not in (None, found.value_format):
        raise SchemaError(
            f"the subject {subject!r} is {found.value_format} in the registry, not {value_format}"
        )
    return DecodingSpec(found.value_format, found.texts, message, registry_framing=True)
