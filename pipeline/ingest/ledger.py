"""The decisions of an ingest, in its checkpoint beside Spark's own files: its identity, and the rules of each batch.

    CHECKPOINT/barnabas/identity.json     {"id": "1f0c...", "table": "/lake/orders", "quarantine": ..., "topics": ...}
    CHECKPOINT/barnabas/batches/000000000017.json
        {"decoding": {...} or null, "unknown": [7], "late_after_s": 60.0 or null, "future_after_s": 3600.0,
         "times_before": {"orders/0": 1760000000000}, "times_after": {...}}

Spark runs a batch again when the driver dies before the batch is committed, with the same offsets. Every row has to
go the same way then: one that went into the quarantine must not go into the table because the registry knows its
schema meanwhile. So the rules of a batch are written once, before any of its rows, and every later attempt follows
them, whatever its options are. Times are epoch milliseconds: the newest of each partition, before and after the batch,
without what lies in the future.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from barnabas.pipeline.decoding.spec import DecodingSpec
from barnabas.pipeline.ingest.files import Files, join
from barnabas.pipeline.ingest.options import FUTURE_AFTER_S

KEPT_BATCHES: Final = 100
"""As many as Spark keeps of its own (spark.sql.streaming.minBatchesToRetain)."""


class IngestConflictError(ValueError):
    """A checkpoint and a table do not belong together, or two ingests are at work with one checkpoint."""


@dataclass(frozen=True)
class Rules:
    """The rules by which a batch's records are sorted into table and quarantine."""

    decoding: DecodingSpec | None = None
    unknown: tuple[int, ...] = ()
    """Schema ids that the registry did not know when it was asked for this batch, the lowest."""
    times_before: Mapping[str, int] = field(default_factory=dict)
    times_after: Mapping[str, int] = field(default_factory=dict)
    late_after_s: float | None = None
    future_after_s: float = FUTURE_AFTER_S

    def to_json(self) -> str:
        """A line."""
        decoding = None if self.decoding is None else json.loads(self.decoding.to_json())
        return json.dumps({**asdict(self), "decoding": decoding}, sort_keys=True)

    @classmethod
    def from_json(cls, text: bytes) -> Rules:
        """What `to_json` wrote."""
        found = json.loads(text)
        decoding = found["decoding"]
        spec = None if decoding is None else DecodingSpec.from_json(json.dumps(decoding))
        return cls(**{**found, "decoding": spec, "unknown": tuple(found["unknown"])})


class Ledger:
    """The directory `barnabas` in a checkpoint."""

    def __init__(self, files: Files, checkpoint: str) -> None:
        self._files = files
        self._checkpoint = checkpoint
        self._root = join(checkpoint, "barnabas")

    def identity(self, description: Mapping[str, Any]) -> str:
        """The ingest's id: created the first time, kept from then on. Raises IngestConflictError when it was for
        another table."""
        path = join(self._root, "identity.json")
        new = {"id": uuid.uuid4().hex, **description}
        self._files.create(path, json.dumps(new, indent=1, sort_keys=True).encode())
        kept = json.loads(self._files.read(path) or b"{}")
        for key, value in description.items():
            if kept.get(key) != value:
                raise IngestConflictError(
                    f"the checkpoint {self._checkpoint} is that of an ingest with the {key} "
                    f"{kept.get(key)!r}, not {value!r}: another ingest needs another checkpoint"
                )
        return str(kept["id"])

    def once(self, name: str, value: int) -> int:
        """A number that is decided the first time and stays the same."""
        path = join(self._root, f"{name}.json")
        self._files.create(path, json.dumps(value).encode())
        return int(json.loads(self._files.read(path) or b"0"))

    def rules(self, batch_id: int) -> Rules | None:
        """The rules that were written for a batch."""
        text = self._files.read(self._path(batch_id))
        return None if text is None else Rules.from_json(text)

    def latest(self) -> Rules | None:
        """The rules of the newest batch."""
        names = [name for name in self._files.names(join(self._root, "batches")) if name.endswith(".json")]
        return self.rules(int(names[-1].removesuffix(".json"))) if names else None

    def planned(self, batch_id: int) -> str | None:
        """The end offsets of a batch that Spark has planned: its offset log has them after version and metadata."""
        text = self._files.read(join(self._checkpoint, "offsets", str(batch_id)))
        return None if text is None else "\n".join(text.decode().splitlines()[2:])

    def write(self, batch_id: int, rules: Rules) -> None:
        """Writes a batch's rules once, before they are applied; removes those of old batches."""
        if not self._files.create(self._path(batch_id), rules.to_json().encode()):
            raise IngestConflictError(f"another ingest is at work with this checkpoint, on batch {batch_id}")
        if batch_id >= KEPT_BATCHES:
            self._files.remove(self._path(batch_id - KEPT_BATCHES))

    def _path(self, batch_id: int) -> str:
        return join(self._root, "batches", f"{batch_id:012d}.json")
