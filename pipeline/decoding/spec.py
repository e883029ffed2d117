"""The specification of a decoding, as text for executors and for an ingest's ledger."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

ValueFormat = Literal["json", "avro", "protobuf"]
FORMATS: Final[tuple[ValueFormat, ...]] = ("json", "avro", "protobuf")


@dataclass(frozen=True)
class DecodingSpec:
    """All that determines how a value is decoded: equal specs decode alike, at any time, anywhere.

    `schema` gives the columns: the last of its texts is the schema, the others are those that it refers to.
    They are JSON Schema (one text), Avro, or for Protobuf the FileDescriptorProtos in base64, with the full name of
    the message in `message`. With `registry_framing` a value begins as `wire_format` says. `writers` has, by id, the
    schemas that values were written with, for Avro and Protobuf: the latter's message indexes count in that schema.
    """

    value_format: ValueFormat
    schema: tuple[str, ...]
    message: str = ""
    registry_framing: bool = False
    writers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def with_writers(self, writers: Mapping[int, tuple[str, ...]]) -> DecodingSpec:
        """The spec with further writers' schemas."""
        return dataclasses.replace(self, writers={**self.writers, **writers})

    def to_json(self) -> str:
        """A line; equal specs have equal lines."""
        fields = {**vars(self), "writers": {str(one): texts for one, texts in self.writers.items()}}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> DecodingSpec:
        """Parses what `to_json` wrote."""
        fields = json.loads(text)
        fields["schema"] = tuple(fields["schema"])
        fields["writers"] = {int(one): tuple(texts) for one, texts in fields["writers"].items()}
        return cls(**fields)
