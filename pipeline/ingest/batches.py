"""Processes a batch: decides its rules, writes them to the ledger, then fills the quarantine and the table.

Both accept a batch only once, so that a batch which a crash cut short is simply run again. Spark counts it as done when
both have it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.pipeline.decoding.column import UNKNOWN_SCHEMA, decoder_of
from barnabas.pipeline.decoding.errors import SchemaError
from barnabas.pipeline.ingest import rows
from barnabas.pipeline.ingest.ledger import Ledger, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.pipeline.decoding.registry import Registered
    from barnabas.pipeline.decoding.spec import DecodingSpec
    from barnabas.pipeline.ingest.options import IngestOptions
    from barnabas.pipeline.ingest.tables import Table

MAX_LOOKUPS: Final = 100
"""The registry is asked for at most so many ids at a time, the lowest: garbage behind a zero byte names any number."""


class SchemaSource(Protocol):
    """The part of a `Registry` that batches need."""

    def by_id(self, schema_id: int) -> Registered | None:
        """The schema with an id; None when the registry has no such id."""


class Counts(NamedTuple):
    """The counts of a batch."""

    quarantined: Counter[str]
    """Records by reason."""
    unknown: tuple[int, ...]
    """Unknown schema ids, the lowest `MAX_LOOKUPS`."""
    newest: dict[str, int]
    """Epoch ms for each partition of a topic, without what lies in the future."""


class Batches:
    """The function that Spark calls with each batch. `quarantined` counts records in quarantine, by reason."""

    def __init__(
        self,
        options: IngestOptions,
        ledger: Ledger,
        table: Table,
        quarantine: Table,
        *,
        decoding: DecodingSpec | None = None,
        registry: SchemaSource | None = None,
    ) -> None:
        self._options = options
        self._ledger = ledger
        self._table = table
        self._quarantine = quarantine
        self._decoding = decoding
        self._registry = registry
        self.quarantined: Counter[str] = Counter()
        self.readings: dict[int, int] = {}
        """How often each batch was read that had to be read again for schemas that it names."""
        self.on_quarantined: Callable[[Counter[str]], None] = lambda counts: None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Processes a batch; Spark may call it repeatedly for the same one."""
        if self._table.has(batch_id):
            # The table comes last: the quarantine has the batch too, and the topic may have deleted its records.
            return
        is_in_quarantine = self._quarantine.has(batch_id)
        written = self._ledger.rules(batch_id)
        if written is None and self._decoding is None and self._options.late_after_s is None:
            nothing_wrong = rows.decoded(batch, None)
            self._table.append(rows.table_rows(nothing_wrong, self._options), batch_id)
            return
        found, counts = self._sorted_out(batch, batch_id, written)
        try:
            if counts.quarantined and not is_in_quarantine:
                self._quarantine.append(rows.quarantine_rows(found, self._options), batch_id)
            self._table.append(rows.table_rows(found, self._options), batch_id)
        finally:
            found.unpersist()
        self.quarantined += counts.quarantined
        self.on_quarantined(counts.quarantined)

    def _sorted_out(self, batch: DataFrame, batch_id: int, written: Rules | None) -> tuple[DataFrame, Counts]:
        """The batch with its reasons, cached by Spark for the two tables; its rules are in the ledger on return."""
        rules = written or self._new_rules()
        while True:
            found = rows.timed(rows.decoded(batch, rules.decoding), rules).persist()
            try:
                counts = counts_of(found, rules.future_after_s)
                if written is not None:
                    return found, counts
                learnt = self._learnt(counts.unknown)
            except BaseException:
                found.unpersist()
                raise
            if not learnt:
                break
            found.unpersist()
            self.readings[batch_id] = self.readings.get(batch_id, 1) + 1
            assert rules.decoding is not None
            self._decoding = rules.decoding.with_writers(learnt)
            rules = dataclasses.replace(rules, decoding=self._decoding)
        times_after = newer(rules.times_before, counts.newest)
        self._ledger.write(
            batch_id, dataclasses.replace(rules, unknown=counts.unknown, times_after=times_after)
        )
        return found, counts

    def _new_rules(self) -> Rules:
        before = self._ledger.latest()  # not always those of the batch before: some have no rules
        return Rules(
            self._decoding,
            times_before=before.times_after if before else {},
            late_after_s=self._options.late_after_s,
            future_after_s=self._options.future_after_s,
        )

    def _learnt(self, unknown: Sequence[int]) -> Mapping[int, tuple[str, ...]]:
        if self._registry is None or self._decoding is None:
            return {}
        answers = {schema_id: self._registry.by_id(schema_id) for schema_id in unknown}
        return {
            schema_id: answer.texts
            for schema_id, answer in answers.items()
            if answer is not None and _is_usable(self._decoding, schema_id, answer)
        }


def _is_usable(decoding: DecodingSpec, schema_id: int, answer: Registered) -> bool:
    """False for an id of an unrelated schema: it must not fail each batch that has it."""
    try:
        decoder_of(decoding.with_writers({schema_id: answer.texts}))
    except SchemaError:
        return False
    return answer.value_format == decoding.value_format


def counts_of(found: DataFrame, future_after_s: float) -> Counts:
    """Runs the batch's plan for its counts alone."""
    counts = Counts(Counter(), (), {})
    for row in rows.counted(found, future_after_s).collect():
        if row.reason is not None:
            counts.quarantined[row.reason] += row["rows"]
        if row.newest is not None and row.newest >= 0:
            counts.newest[row.source] = max(row.newest, counts.newest.get(row.source, row.newest))
    if not counts.quarantined[UNKNOWN_SCHEMA]:
        return counts
    unknown = tuple(row.schema_id for row in rows.unknown_ids(found, MAX_LOOKUPS).collect())
    return counts._replace(unknown=unknown)


def newer(before: Mapping[str, int], found: Mapping[str, int]) -> dict[str, int]:
    """The newest times of both."""
    return {
        source: max(before.get(source, 0), found.get(source, 0))
        for source in sorted(before.keys() | found.keys())
    }
