"""Tables that accept each batch once, however often it comes: Parquet in plain directories, and Delta Lake.

A batch is known by the id of its ingest and its number. `DeltaTable` leaves it to Delta's transaction log, which holds
the newest number of each ingest. `ParquetTable` has a log of its own in TABLE/_barnabas, where readers do not look:

    TABLE/day=2026-01-31/000000000017-part-00000-5e0f...-c000.zstd.parquet
    TABLE/_barnabas/ingests/1f0c....json                     what fills this table
    TABLE/_barnabas/commits/1f0c.../000000000017.json
        {"staging": "...", "files": ["day=2026-01-31/part-..."], "planned": "{\"orders\":{\"0\":170}}"}
    TABLE/_barnabas/staging/1f0c...-17-8a41.../day=.../part-...

| step | what a crash behind it leaves |
| --- | --- |
| 1 Spark writes the batch below staging, by itself | files without a commit; they go when the batch is in |
| 2 the commit's file appears, whole (`Files.create`) | the batch is in: the next attempt continues with 3 |
| 3 each file is renamed to its place | the same: what is renamed already is found there |
| 4 all attempts at this batch and those before are removed | nothing |

So a file in the table is whole, is there for good, and no record is in two of them, for every reader of the directory.
Spark's own file sink keeps that promise only to readers that know its _spark_metadata: to others what a killed
attempt leaves is part of the table.

Nothing that another attempt has staged is removed before the batch is in: the driver before this one may be alive, and
would commit what is left of it. Behind step 2 it cannot commit any more.

`planned` has the offsets up to which Spark has planned the batch. Spark plans it again where its checkpoint was set
back or lost the batch's offsets, and then it is another batch by the same number: to skip it as one that is in would
lose its additional records. Delta knows only the number, so a `DeltaTable` has commit files as well, each written when
Delta has the batch.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.pipeline.ingest.files import Files, join
from barnabas.pipeline.ingest.ledger import IngestConflictError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PRIVATE: Final = "_barnabas"
KEPT_COMMITS: Final = 100
DELTA_TRANSACTIONS: Final = "barnabas-ingest-"
_MAX_SHOWN: Final = 200  # characters of offsets in a message

Planned = Callable[[int], str | None]
"""The end offsets of a batch in Spark's checkpoint; None where it has none."""


class Table(Protocol):
    """A table that batches are written to."""

    def has(self, batch_id: int) -> bool:
        """True where the batch is in already and the table knows it without work."""

    def append(self, batch: DataFrame, batch_id: int) -> None:
        """Adds the whole batch or nothing of it; nothing when it is in already."""


def claim(files: Files, table: str, ingest_id: str, *, second_ingest: bool, checkpoint: str) -> None:
    """Records the ingest that fills a table. Raises IngestConflictError where only others did: a lost checkpoint would
    fill it twice."""
    directory, own = join(table, PRIVATE, "ingests"), f"{ingest_id}.json"
    known = _notes(files, directory)
    if own in known:
        return
    if known and not second_ingest:
        other = json.loads(files.read(join(directory, known[0])) or b"{}")
        raise IngestConflictError(
            f"{table} was filled with the checkpoint {other.get('checkpoint')}, and {checkpoint} is another one: "
            "it would start from the beginning. Continue with that one, or allow it as a second ingest"
        )
    note = json.dumps({"checkpoint": checkpoint}, indent=1).encode()
    files.create(join(directory, own), note)


def _notes(files: Files, directory: str) -> list[str]:
    """The files of a directory, without those that a killed driver had not yet renamed."""
    return [name for name in files.names(directory) if name.endswith(".json")]


class CommittedTable(ABC):
    """The common part of the tables: a batch is in when its commit's file exists."""

    def __init__(
        self,
        files: Files,
        path: str,
        ingest_id: str,
        partition_columns: Sequence[str],
        planned: Planned = lambda _: None,
    ) -> None:
        self._path = files.for_spark(path)
        self._ingest_id = ingest_id
        self._partition_columns = list(partition_columns)
        self._commits = CommitLog(files, path, ingest_id, planned)

    def has(self, batch_id: int) -> bool:
        """Checks the commit's file, and completes a commit that a crash interrupted.

        False says nothing of a Delta table: a driver may have died before it wrote that file.
        """
        return self._commits.finish(batch_id)

    def append(self, batch: DataFrame, batch_id: int) -> None:
        """See the module."""
        if not self.has(batch_id):
            self._commits.commit(batch_id, self._write(batch, batch_id))

    @abstractmethod
    def _write(self, batch: DataFrame, batch_id: int) -> str:
        """Has Spark write the batch; returns the name of the staging directory whose files are to be published."""


class ParquetTable(CommittedTable):
    """Parquet files in directories named after their partition columns."""

    def _write(self, batch: DataFrame, batch_id: int) -> str:
        staging = self._commits.new_staging(batch_id)
        try:
            batch.write.partitionBy(*self._partition_columns).parquet(self._commits.place(staging))
        except BaseException:
            self._commits.discard(staging)  # a full disk stays full otherwise
            raise
        return staging


class DeltaTable(CommittedTable):
    """A table of Delta Lake's, by its path. Delta commits nothing for a number that it has seen of this ingest."""

    def _write(self, batch: DataFrame, batch_id: int) -> str:
        (
            batch.write.format("delta")
            .mode("append")
            .partitionBy(*self._partition_columns)
            .option("txnAppId", f"{DELTA_TRANSACTIONS}{self._ingest_id}")
            .option("txnVersion", batch_id)
            .option("mergeSchema", "true")
            .save(self._path)
        )
        return self._commits.new_staging(batch_id)  # without files: those are Delta's


class CommitLog:
    """Makes a directory of files accept each batch once; does not interpret the files."""

    def __init__(self, files: Files, table: str, ingest_id: str, planned: Planned = lambda _: None) -> None:
        self._files = files
        self._table = table
        self._id = ingest_id
        self._planned = planned

    def finish(self, batch_id: int) -> bool:
        """True when the batch is committed; completes a commit that a crash interrupted.

        IngestConflictError where another batch is committed by this number, or the table is far ahead of it.
        """
        text = self._files.read(self._commit_path(batch_id))
        if text is None:
            self._reject_batches_of_the_past(batch_id)
            return False
        manifest = json.loads(text)
        self._compare(batch_id, manifest.get("planned"))
        self._publish(batch_id, manifest)
        return True

    def new_staging(self, batch_id: int) -> str:
        """The name of a directory for one attempt at a batch."""
        return f"{self._id}-{batch_id}-{uuid.uuid4().hex[:12]}"

    def staging_path(self, name: str) -> str:
        """The directory that an attempt writes to."""
        return join(self._table, PRIVATE, "staging", name)

    def place(self, staging: str) -> str:
        """That path as Spark needs it."""
        return self._files.for_spark(self.staging_path(staging))

    def discard(self, staging: str) -> None:
        """Removes files that this driver has staged and will not commit."""
        self._files.remove(self.staging_path(staging))

    def commit(self, batch_id: int, staging: str) -> None:
        """Moves all staged files into the table. Raises IngestConflictError when another driver was first."""
        manifest = {
            "staging": staging,
            "files": self._files.tree(self.staging_path(staging)),
            "planned": self._planned(batch_id),
        }
        if not self._files.create(self._commit_path(batch_id), json.dumps(manifest).encode()):
            self.discard(staging)
            raise IngestConflictError(
                f"another ingest has committed batch {batch_id} to {self._table} meanwhile"
            )
        self._publish(batch_id, manifest)
        for number, name in self._committed():
            if number <= batch_id - KEPT_COMMITS:
                self._files.remove(join(self._commits_path(), name))

    def _publish(self, batch_id: int, manifest: dict[str, Any]) -> None:
        for path in manifest["files"]:
            directory, _, name = path.rpartition("/")
            target = join(self._table, directory, f"{batch_id:012d}-{name}")
            # No such source: an earlier driver has renamed it, or the file was removed from the table since.
            self._files.rename(join(self.staging_path(manifest["staging"]), path), target)
        for number, name in self._staged():
            if number <= batch_id:
                self.discard(name)

    def _staged(self) -> Iterator[tuple[int, str]]:
        """The attempts of this ingest: numbers of batches, and names."""
        own = f"{self._id}-"
        for name in self._files.names(join(self._table, PRIVATE, "staging")):
            if name.startswith(own):
                yield int(name.removeprefix(own).partition("-")[0]), name

    def _committed(self) -> Iterator[tuple[int, str]]:
        """The commits of this ingest that are kept: numbers of batches, and names."""
        for name in _notes(self._files, self._commits_path()):
            yield int(name.removesuffix(".json")), name

    def _reject_batches_of_the_past(self, batch_id: int) -> None:
        newest = max((number for number, _ in self._committed()), default=-1)
        if newest > batch_id:
            raise IngestConflictError(
                f"{self._table} has batch {newest} of this ingest, and its checkpoint is at batch {batch_id} only: "
                "it is an older copy, and would bring in again what is there. Continue with the newer one"
            )

    def _compare(self, batch_id: int, committed: str | None) -> None:
        planned = self._planned(batch_id)
        if None in (committed, planned) or committed == planned:
            return
        raise IngestConflictError(
            f"{self._table} has batch {batch_id} of this ingest up to the offsets {str(committed)[:_MAX_SHOWN]}, and "
            f"in its checkpoint the batch goes up to {str(planned)[:_MAX_SHOWN]}: the checkpoint is an older copy, or "
            f"has lost what Spark had planned. Bring back its file offsets/{batch_id}, or begin a new one as a second "
            f"ingest that starts at the offsets in {self._commit_path(batch_id)}"
        )

    def _commits_path(self) -> str:
        return join(self._table, PRIVATE, "commits", self._id)

    def _commit_path(self, batch_id: int) -> str:
        return join(self._commits_path(), f"{batch_id:012d}.json")
