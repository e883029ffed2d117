"""Tables that take each batch once, however often it comes: Parquet in plain directories, and Delta Lake.

A batch is known by the id of its ingest and its number. `DeltaTable` leaves it to Delta's transaction log, which holds
the newest number of each ingest. `ParquetTable` has a log of its own in TABLE/_barnabas, where readers do not look:

    TABLE/day=2026-01-31/000000000017-part-00000-5e0f...-c000.zstd.parquet
    TABLE/_barnabas/ingests/1f0c....json                     what fills this table
    TABLE/_barnabas/commits/1f0c.../000000000017.json        {"staging": "...", "files": ["day=2026-01-31/part-..."]}
    TABLE/_barnabas/staging/1f0c...-17-8a41.../day=.../part-...

| step | what a crash behind it leaves |
| --- | --- |
| 1 Spark writes the batch below staging, in a directory of this attempt | files nobody knows: the next removes them |
| 2 the commit's file appears, whole (`Files.create`) | the batch is in: whoever comes next goes on with 3 |
| 3 each file is renamed to its place | the same: what is renamed already is found there |
| 4 staging is removed | nothing |

So a file in the table is whole, is there for good, and no record is in two of them, whoever lists the directory.
Spark's own file sink keeps that promise only to readers that know its _spark_metadata: to others what a killed
attempt leaves is part of the table.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pipeline.ingest.files import Files, join
from pipeline.ingest.ledger import IngestConflictError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PRIVATE: Final = "_barnabas"
KEPT_COMMITS: Final = 100
DELTA_TRANSACTIONS: Final = "barnabas-ingest-"


class Table(Protocol):
    """Where batches go."""

    def has(self, batch_id: int) -> bool:
        """True where the batch is in already and the table can tell without work."""

    def append(self, batch: DataFrame, batch_id: int) -> None:
        """The whole batch or nothing of it; nothing where it is in already."""


def claim(files: Files, table: str, ingest_id: str, *, second_ingest: bool, checkpoint: str) -> None:
    """Notes who fills a table. IngestConflictError where somebody else has: a lost checkpoint would fill it twice."""
    directory = join(table, PRIVATE, "ingests")
    others = [name for name in files.names(directory) if name != f"{ingest_id}.json"]
    if others and not second_ingest:
        known = json.loads(files.read(join(directory, others[0])) or b"{}")
        raise IngestConflictError(
            f"{table} was filled with the checkpoint {known.get('checkpoint')}, and {checkpoint} is another one: "
            "it would begin anew. Go on with that one, or say that a second ingest is meant"
        )
    note = json.dumps({"checkpoint": checkpoint}, indent=1).encode()
    files.create(join(directory, f"{ingest_id}.json"), note)


class ParquetTable:
    """Parquet files in directories named after their partition columns."""

    def __init__(self, files: Files, path: str, ingest_id: str, partition_columns: Sequence[str]) -> None:
        self._commits = CommitLog(files, path, ingest_id)
        self._partition_columns = list(partition_columns)

    def has(self, batch_id: int) -> bool:
        """By its commit's file; completes what a crash has left to do of it."""
        return self._commits.finish(batch_id)

    def append(self, batch: DataFrame, batch_id: int) -> None:
        """See the module."""
        if self.has(batch_id):
            return
        staging = self._commits.new_staging(batch_id)
        batch.write.partitionBy(*self._partition_columns).parquet(self._commits.staging_path(staging))
        self._commits.commit(batch_id, staging)


class CommitLog:
    """What makes a directory of files one that takes each batch once; knows nothing of what is in the files."""

    def __init__(self, files: Files, table: str, ingest_id: str) -> None:
        self._files = files
        self._table = table
        self._id = ingest_id

    def finish(self, batch_id: int) -> bool:
        """True where the batch is committed; what a crash has left of that to do is done then."""
        text = self._files.read(self._commit_path(batch_id))
        if text is None:
            return False
        self._publish(batch_id, json.loads(text))
        return True

    def new_staging(self, batch_id: int) -> str:
        """The name of a directory for one attempt at a batch; those of earlier attempts are removed."""
        for name in self._files.names(join(self._table, PRIVATE, "staging")):
            if name.startswith(f"{self._id}-"):
                self._files.remove(self.staging_path(name))
        return f"{self._id}-{batch_id}-{uuid.uuid4().hex[:12]}"

    def staging_path(self, name: str) -> str:
        """Where an attempt writes."""
        return join(self._table, PRIVATE, "staging", name)

    def commit(self, batch_id: int, staging: str) -> None:
        """All that lies there is in the table. IngestConflictError where somebody else was first."""
        manifest = {"staging": staging, "files": self._files.tree(self.staging_path(staging))}
        if not self._files.create(self._commit_path(batch_id), json.dumps(manifest).encode()):
            self._files.remove(self.staging_path(staging))
            raise IngestConflictError(
                f"another ingest has committed batch {batch_id} to {self._table} meanwhile"
            )
        self._publish(batch_id, manifest)
        if batch_id >= KEPT_COMMITS:
            self._files.remove(self._commit_path(batch_id - KEPT_COMMITS))

    def _publish(self, batch_id: int, manifest: dict[str, Any]) -> None:
        for path in manifest["files"]:
            directory, _, name = path.rpartition("/")
            target = join(self._table, directory, f"{batch_id:012d}-{name}")
            # No such source: a driver before this one has got so far, or the table was tidied up since.
            self._files.rename(join(self.staging_path(manifest["staging"]), path), target)
        self._files.remove(self.staging_path(manifest["staging"]))

    def _commit_path(self, batch_id: int) -> str:
        return join(self._table, PRIVATE, "commits", self._id, f"{batch_id:012d}.json")


class DeltaTable:
    """A table of Delta Lake's, by its path."""

    def __init__(self, path: str, ingest_id: str, partition_columns: Sequence[str]) -> None:
        self._path = path
        self._transactions = f"{DELTA_TRANSACTIONS}{ingest_id}"
        self._partition_columns = list(partition_columns)

    def has(self, batch_id: int) -> bool:
        """Only Delta can tell, which it does by reading its log."""
        return False

    def append(self, batch: DataFrame, batch_id: int) -> None:
        """Delta commits nothing for a number that it has seen of this ingest."""
        (
            batch.write.format("delta")
            .mode("append")
            .partitionBy(*self._partition_columns)
            .option("txnAppId", self._transactions)
            .option("txnVersion", batch_id)
            .option("mergeSchema", "true")
            .save(self._path)
        )
