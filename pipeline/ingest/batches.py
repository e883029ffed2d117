"""What happens to each batch: decide by which rules, write them down, then fill the quarantine and the table.

Each of the two takes a batch once, so that a batch which a crash has cut short is simply run again. Spark counts it as
done when both have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pipeline.decoding.column import UNKNOWN_SCHEMA, decoder_of
from pipeline.decoding.errors import SchemaError
from pipeline.ingest import rows
from pipeline.ingest.ledger import Ledger, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.decoding.registry import Registered
    from pipeline.decoding.spec import DecodingSpec
    from pipeline.ingest.options import IngestOptions
    from pipeline.ingest.tables import Table

MAX_LOOKUPS: Final = 100
"""Ids that the registry is asked for in one batch, the lowest: garbage behind a zero byte names any number."""


class SchemaSource(Protocol):
    """A `Registry`, as far as batches need it."""

    def by_id(self, schema_id: int) -> Registered | None:
        """None where it has no such id."""


class Counts(NamedTuple):
    """What is in a batch."""

    quarantined: Counter[str]
    """Records by reason."""
    unknown: frozenset[int]
    """Schema ids that nobody knew."""
    newest: dict[str, int]
    """Epoch ms for each partition of a topic, without what lies in the future."""


class Batches:
    """The function that Spark calls with each batch. `quarantined` counts what was put aside, by reason."""

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
        self.on_quarantined: Callable[[Counter[str]], None] = lambda counts: None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Everything of a batch, as often as need be."""
        if self._table.has(batch_id):
            return  # the table is last: the quarantine has it too, and the topic may not have the records any more
        if self._decoding is None and self._options.late_after_s is None:
            nothing_wrong = rows.decoded(batch, None)
            self._table.append(rows.table_rows(nothing_wrong, self._options), batch_id)
            return
        found, counts = self._told_apart(batch, batch_id)
        try:
            if counts.quarantined:
                self._quarantine.append(rows.quarantine_rows(found, self._options), batch_id)
            self._table.append(rows.table_rows(found, self._options), batch_id)
        finally:
            found.unpersist()
        self.quarantined += counts.quarantined
        self.on_quarantined(counts.quarantined)

    def _told_apart(self, batch: DataFrame, batch_id: int) -> tuple[DataFrame, Counts]:
        """The batch with its reasons, kept by Spark for the two tables; the rules are written down when it returns."""
        written = self._ledger.rules(batch_id)
        rules = written or self._new_rules(batch_id)
        while True:
            found = rows.timed(
                rows.decoded(batch, rules.decoding), self._options, rules.times_before
            ).persist()
            try:
                counts = counts_of(found)
                if written is not None:
                    return found, counts
                learnt = self._learnt(counts.unknown)
            except BaseException:
                found.unpersist()
                raise
            if not learnt:
                break
            found.unpersist()
            assert rules.decoding is not None
            self._decoding = rules.decoding.with_writers(learnt)
            rules = Rules(self._decoding, (), rules.times_before)
        after = newer(rules.times_before, counts.newest)
        self._ledger.write(
            batch_id, Rules(rules.decoding, tuple(sorted(counts.unknown)), rules.times_before, after)
        )
        return found, counts

    def _new_rules(self, batch_id: int) -> Rules:
        before = self._ledger.rules(batch_id - 1) if batch_id else None
        return Rules(self._decoding, (), before.times_after if before else {})

    def _learnt(self, unknown: frozenset[int]) -> Mapping[int, tuple[str, ...]]:
        if self._registry is None or self._decoding is None:
            return {}
        asked = sorted(unknown)[:MAX_LOOKUPS]
        answers = {schema_id: self._registry.by_id(schema_id) for schema_id in asked}
        return {
            schema_id: answer.texts
            for schema_id, answer in answers.items()
            if answer is not None and _is_usable(self._decoding, schema_id, answer)
        }


def _is_usable(decoding: DecodingSpec, schema_id: int, answer: Registered) -> bool:
    """False for an id that means something else altogether: no reason to fail each batch that has it."""
    try:
        decoder_of(decoding.with_writers({schema_id: answer.texts}))
    except SchemaError:
        return False
    return answer.value_format == decoding.value_format


def counts_of(found: DataFrame) -> Counts:
    """Runs the batch as far as the counts."""
    counts = Counts(Counter(), frozenset(), {})
    unknown = set()
    for row in rows.counted(found).collect():
        if row.reason is not None:
            counts.quarantined[row.reason] += row["rows"]
        if row.reason == UNKNOWN_SCHEMA:
            unknown.add(row.schema_id)
        if row.reason != rows.FUTURE and row.newest is not None and row.newest >= 0:
            counts.newest[row.source] = max(row.newest, counts.newest.get(row.source, row.newest))
    return counts._replace(unknown=frozenset(unknown))


def newer(before: Mapping[str, int], found: Mapping[str, int]) -> dict[str, int]:
    """The newest times of both."""
    return {
        source: max(before.get(source, 0), found.get(source, 0))
        for source in sorted(before.keys() | found.keys())
    }
