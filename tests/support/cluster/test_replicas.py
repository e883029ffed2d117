from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.records.builder import build_batch
from tests.support.cluster.replicas import batches_in, differences, epochs_of, findings

Written = list[tuple[int, int, int]]
"""Batches as (base offset, records, epoch)."""

LOG: Written = [(0, 3, 0), (3, 2, 0), (5, 1, 2), (6, 4, 2)]
EPOCHS = [(0, 0), (2, 5)]


def replica(
    directory: Path, written: Written = LOG, epochs: list[tuple[int, int]] | None = None, text: bytes = b"v"
) -> Path:
    """A partition's directory with these batches in two segments."""
    directory.mkdir(parents=True)
    half = len(written) // 2
    for part in (written[:half], written[half:]):
        if part:
            data = b"".join(
                build_batch(
                    [(None, text, 1000 + base + number, []) for number in range(records)],
                    base_offset=base,
                    partition_leader_epoch=epoch,
                )
                for base, records, epoch in part
            )
            (directory / f"{part[0][0]:020d}.log").write_bytes(data)
    entries = EPOCHS if epochs is None else epochs
    lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
    (directory / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
    return directory


def test_batches_are_read_from_all_segments(tmp_path: Path) -> None:
    batches = batches_in(replica(tmp_path / "t-0"))
    assert [(each.base_offset, each.last_offset, each.epoch) for each in batches] == [
        (0, 2, 0),
        (3, 4, 0),
        (5, 5, 2),
        (6, 9, 2),
    ]
    assert epochs_of(batches) == EPOCHS


def test_what_is_being_written_is_left_out(tmp_path: Path) -> None:
    directory = replica(tmp_path / "t-0")
    last = directory / f"{5:020d}.log"
    last.write_bytes(last.read_bytes()[:-7])
    assert [each.base_offset for each in batches_in(directory)] == [0, 3, 5]


def test_equal_replicas_have_no_differences(tmp_path: Path) -> None:
    directories = {node: replica(tmp_path / str(node)) for node in (1, 2, 3)}
    assert differences(directories, 10) == []


def test_what_lies_beyond_the_high_watermark_may_differ(tmp_path: Path) -> None:
    ahead = replica(tmp_path / "1", [*LOG, (10, 1, 3)], [*EPOCHS, (3, 10)])
    assert differences({1: ahead, 2: replica(tmp_path / "2")}, 10) == []


def test_retention_works_on_each_replica_by_itself(tmp_path: Path) -> None:
    shorter = replica(tmp_path / "1", LOG[2:], [(2, 5)])
    inside = replica(tmp_path / "2", LOG[1:], [(0, 4), (2, 5)])
    assert differences({1: shorter, 2: inside, 3: replica(tmp_path / "3")}, 10, 4) == []


def test_deleted_records_may_still_be_there(tmp_path: Path) -> None:
    longer = replica(tmp_path / "1", epochs=[(2, 7)])
    shorter = replica(tmp_path / "2", LOG[3:], [(2, 7)])
    assert differences({1: longer, 2: shorter}, 10, 7) == []
    (found, _) = differences({1: longer, 2: replica(tmp_path / "3", epochs=[(2, 7)])}, 10, 6)
    assert found == "broker 1: the first epoch in the file begins at 7, the log at 6"


def test_epochs_without_batches_may_differ(tmp_path: Path) -> None:
    other = replica(tmp_path / "1", epochs=[(0, 0), (1, 5), (2, 5), (4, 10)])
    assert differences({1: other, 2: replica(tmp_path / "2")}, 10) == []


@pytest.mark.parametrize(
    ("written", "epochs", "text", "expected"),
    [
        (LOG[:3], EPOCHS, b"v", "broker 2 ends at 6, below the high watermark 10"),
        ([LOG[0], LOG[2], LOG[3]], EPOCHS, b"v", "at 3: broker 1 has 3-4 of epoch 0"),
        (LOG, EPOCHS, b"w", "at 0: broker 1 has 0-2 of epoch 0"),
        (
            [(0, 5, 0), *LOG[2:]],
            EPOCHS,
            b"v",
            "at 3: broker 1 has 3-4 of epoch 0, 77 bytes, broker 2 no batch",
        ),
        ([*LOG[:3], (6, 4, 3)], [*EPOCHS, (3, 6)], b"v", "at 6: broker 1 has 6-9 of epoch 2"),
        ([*LOG[:3], (5, 5, 2)], EPOCHS, b"v", "broker 2: a batch at 5 follows one that ends at 5"),
        ([*LOG[:3], (6, 4, 1)], EPOCHS, b"v", "broker 2: epoch 1 at 6 follows epoch 2"),
        (LOG, [(0, 0)], b"v", "broker 2: the epochs in the file are [(0, 0)], those of the batches"),
        (LOG, [(0, 0), (2, 6)], b"v", "broker 2: the epochs in the file are [(0, 0), (2, 6)]"),
    ],
)
def test_each_difference_is_found(
    tmp_path: Path, written: Written, epochs: list[tuple[int, int]], text: bytes, expected: str
) -> None:
    directories = {1: replica(tmp_path / "1"), 2: replica(tmp_path / "2", written, epochs, text)}
    found = differences(directories, 10)
    assert any(line.startswith(expected) for line in found), found


def test_the_files_are_verified(tmp_path: Path) -> None:
    directory = replica(tmp_path / "t-0")
    assert findings(directory, is_live=True) == []
    path = directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert findings(directory, is_live=False) != []
