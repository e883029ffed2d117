"""Tests that a batch is in the table once, whichever file operation a driver dies at."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipeline.ingest.files import Files, LocalFiles
from barnabas.pipeline.ingest.ledger import IngestConflictError
from barnabas.pipeline.ingest.tables import KEPT_COMMITS, CommitLog, claim


class Killed(BaseException):
    """The driver's end."""


class MortalFiles(LocalFiles):
    """Files of a driver that dies before or after its n-th change of them."""

    def __init__(self, lives: int, *, dies_behind: bool) -> None:
        self.lives = lives
        self.dies_behind = dies_behind

    def _live(self, *, behind: bool) -> None:
        self.lives -= behind == self.dies_behind
        if self.lives < 0:
            raise Killed

    def create(self, path: str, data: bytes) -> bool:
        self._live(behind=False)
        done = super().create(path, data)
        self._live(behind=True)
        return done

    def rename(self, source: str, target: str) -> bool:
        self._live(behind=False)
        done = super().rename(source, target)
        self._live(behind=True)
        return done

    def remove(self, path: str) -> None:
        self._live(behind=False)
        super().remove(path)
        self._live(behind=True)


def run_batch(files: Files, table: Path, batch_id: int) -> None:
    """Writes a batch of two days as ParquetTable does, with a file of Spark's own beside the data."""
    log = CommitLog(files, str(table), "me")
    if log.finish(batch_id):
        return
    staging = log.new_staging(batch_id)
    for day in ("day=1", "day=2"):
        place = Path(log.staging_path(staging), day)
        place.mkdir(parents=True)
        attempt = next(_ATTEMPTS)
        (place / f"part-{attempt}.parquet").write_text(f"{batch_id}/{day}")
        (place / f".part-{attempt}.parquet.crc").write_text("checksum")
    Path(log.staging_path(staging), "_SUCCESS").touch()
    log.commit(batch_id, staging)


_ATTEMPTS: Iterator[int] = itertools.count()


def visible(table: Path) -> list[str]:
    """The files that a reader finds by listing the directory."""
    return sorted((table / path).read_text() for path in LocalFiles().tree(str(table)))


def staged(table: Path) -> list[str]:
    """The files below staging."""
    return LocalFiles().names(str(table / "_barnabas" / "staging"))


WHOLE = [f"{batch_id}/day={day}" for batch_id in range(3) for day in (1, 2)]


@pytest.mark.parametrize("dies_behind", [False, True])
def test_each_batch_is_applied_once_wherever_a_driver_dies(tmp_path: Path, dies_behind: bool) -> None:
    for lives in itertools.count():
        table = tmp_path / str(lives)
        mortal = MortalFiles(lives, dies_behind=dies_behind)
        survived = True
        for batch_id in range(3):
            try:
                run_batch(mortal, table, batch_id)
            except Killed:
                survived = False
                seen = visible(table)
                assert len(set(seen)) == len(seen)
                mortal = MortalFiles(10**6, dies_behind=False)  # the next driver
                run_batch(mortal, table, batch_id)
            run_batch(LocalFiles(), table, batch_id)  # and one that did not see the commit
        assert visible(table) == WHOLE
        assert staged(table) == []
        if survived:
            assert lives > 10
            return


def test_of_two_drivers_one_commits(tmp_path: Path) -> None:
    log = CommitLog(LocalFiles(), str(tmp_path), "me")
    staging = log.new_staging(5)
    Path(log.staging_path(staging)).mkdir(parents=True)
    Path(log.staging_path(staging), "part-late.parquet").write_text("late")
    manifest = tmp_path / "_barnabas" / "commits" / "me" / "000000000005.json"
    LocalFiles().create(str(manifest), json.dumps({"staging": "x", "files": []}).encode())
    with pytest.raises(IngestConflictError, match="another ingest has committed batch 5"):
        log.commit(5, staging)
    assert visible(tmp_path) == []


def test_a_batch_without_rows_is_a_commit_too(tmp_path: Path) -> None:
    log = CommitLog(LocalFiles(), str(tmp_path), "me")
    log.commit(0, log.new_staging(0))
    assert log.finish(0)
    assert not log.finish(1)


def test_old_commits_are_removed(tmp_path: Path) -> None:
    log = CommitLog(LocalFiles(), str(tmp_path), "me")
    for batch_id in (0, 7, *range(50, KEPT_COMMITS + 1)):  # a quarantine lacks some of them
        log.commit(batch_id, log.new_staging(batch_id))
    assert log.finish(7)
    log.commit(KEPT_COMMITS + 8, log.new_staging(KEPT_COMMITS + 8))
    kept = LocalFiles().names(str(tmp_path / "_barnabas" / "commits" / "me"))
    assert (kept[0], len(kept)) == ("000000000050.json", 52)


def test_an_old_batch_is_rejected(tmp_path: Path) -> None:
    """A checkpoint restored from a copy would add again batches whose commits the table has removed."""
    log = CommitLog(LocalFiles(), str(tmp_path), "me")
    log.commit(7, log.new_staging(7))
    with pytest.raises(
        IngestConflictError, match="has batch 7 of this ingest, and its checkpoint is at batch 6 only"
    ):
        log.finish(6)


def test_a_replanned_batch_is_another_one(tmp_path: Path) -> None:
    planned = {3: '{"t":{"0":10}}'}
    log = CommitLog(LocalFiles(), str(tmp_path), "me", planned.get)
    log.commit(3, log.new_staging(3))
    assert log.finish(3)
    planned[3] = '{"t":{"0":15}}'
    with pytest.raises(
        IngestConflictError, match=r'"0":10.*goes up to .*"0":15.*Bring back its file offsets/3'
    ):
        log.finish(3)
    assert CommitLog(LocalFiles(), str(tmp_path), "me").finish(3), "a checkpoint may not say"


def stage(log: CommitLog, staging: str, name: str) -> None:
    """Stages a file of an attempt."""
    LocalFiles().create(f"{log.staging_path(staging)}/{name}", name.encode())


def test_files_staged_by_a_live_driver_are_kept(tmp_path: Path) -> None:
    """It would continue, and commit as the whole batch only the files that it stages later."""
    old, new = (CommitLog(LocalFiles(), str(tmp_path), "me") for _ in range(2))
    begun = old.new_staging(0)
    stage(old, begun, "part-0")
    assert not new.finish(0)
    beside = new.new_staging(0)
    stage(new, beside, "part-x")
    stage(old, begun, "part-1")
    old.commit(0, begun)
    assert visible(tmp_path) == ["part-0", "part-1"]
    with pytest.raises(IngestConflictError, match="has committed batch 0"):
        new.commit(0, beside)
    assert visible(tmp_path) == ["part-0", "part-1"]
    assert staged(tmp_path) == []


def test_attempts_of_killed_drivers_go_when_the_batch_is_in(tmp_path: Path) -> None:
    log = CommitLog(LocalFiles(), str(tmp_path), "me")
    attempts = [log.new_staging(4) for _ in range(3)]
    for attempt in attempts:
        stage(log, attempt, "part-0")
    later = log.new_staging(5)
    stage(log, later, "part-0")
    log.commit(4, attempts[1])
    assert staged(tmp_path) == [later]


def test_files_staged_by_another_ingest_are_kept(tmp_path: Path) -> None:
    other = CommitLog(LocalFiles(), str(tmp_path), "other")
    Path(other.staging_path(other.new_staging(0))).mkdir(parents=True)
    run_batch(LocalFiles(), tmp_path, 0)
    assert [name.partition("-")[0] for name in staged(tmp_path)] == ["other"]


def test_a_table_filled_with_another_checkpoint_is_rejected(tmp_path: Path) -> None:
    table = str(tmp_path)
    claim(LocalFiles(), table, "a", second_ingest=False, checkpoint="/c/a")
    claim(LocalFiles(), table, "a", second_ingest=False, checkpoint="/c/a")
    with pytest.raises(
        IngestConflictError, match="was filled with the checkpoint /c/a, and /c/b is another one"
    ):
        claim(LocalFiles(), table, "b", second_ingest=False, checkpoint="/c/b")
    claim(LocalFiles(), table, "b", second_ingest=True, checkpoint="/c/b")
    for both in "ab":  # the permission holds from now on
        claim(LocalFiles(), table, both, second_ingest=False, checkpoint=f"/c/{both}")
    with pytest.raises(IngestConflictError):
        claim(LocalFiles(), table, "c", second_ingest=False, checkpoint="/c/c")


def test_an_incomplete_note_is_ignored(tmp_path: Path) -> None:
    """Local files and Hadoop's have their own names for incomplete files."""
    for torn in (".a.json.1f0c", "a.json.1f0c.tmp"):
        LocalFiles().create(str(tmp_path / "_barnabas" / "ingests" / torn), b'{"check')
    claim(LocalFiles(), str(tmp_path), "a", second_ingest=False, checkpoint="/c/a")
    assert (tmp_path / "_barnabas" / "ingests" / "a.json").exists()
