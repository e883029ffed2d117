"""Tests finding partitions and segments by their names, also while compaction swaps some in."""

from __future__ import annotations

import pytest

from barnabas.pipeline.log_reading.directories import find_partitions, list_segments
from barnabas.pipeline.log_reading.errors import (
    BusyDirectoryError,
    DataLossError,
    LogReadingError,
    NoSuchLogError,
)
from barnabas.pipeline.log_reading.planning import plan_ranges
from barnabas.pipeline.log_reading.range_reader import Reading
from barnabas.storage.log.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from tests.pipeline.log_reading.reading import look, read, rows_in
from tests.pipeline.log_reading.test_formats import write_log
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, TOPIC_ID, make_batch

LOSING = Reading(fail_on_data_loss=False)


def segment(*offsets: int) -> bytes:
    return b"".join(make_batch(b"%d" % offset, base_offset=offset) for offset in offsets)


def three_segments(env: FaultEnv) -> None:
    write_log(env, segment(0, 1, 2), base_offset=0)
    write_log(env, segment(3, 4, 5), base_offset=3)
    write_log(env, segment(6, 7), base_offset=6)


def names(env: FaultEnv) -> list[str]:
    return [listed.path().rpartition("/")[2].lstrip("0") for listed in list_segments(env, DIRECTORY)]


def remove(env: FaultEnv, base_offset: int) -> None:
    env.remove(f"{DIRECTORY}/{base_offset:020d}.log")


def test_partitions_under_log_directories() -> None:
    env = FaultEnv()
    for name in ("a-0", "a-10", "a-2", "b.c-1", "a-3.0123456789abcdef0123456789abcdef-delete", "nothing"):
        env.mkdir(f"/x/{name}")
    found = find_partitions(env, ["/x/"])
    assert [it.name for it in found] == ["a-0", "a-2", "a-10", "b.c-1"]
    with pytest.raises(NoSuchLogError, match="/y is not a directory"):
        find_partitions(env, ["/y"])
    with pytest.raises(NoSuchLogError, match="it has no partitions"):
        find_partitions(env, ["/x/nothing"])
    env.mkdir("/z/a-2")
    with pytest.raises(LogReadingError, match="a-2 is in /x/a-2 and in /z/a-2"):
        find_partitions(env, ["/x", "/z"])


def test_an_unwanted_partition_may_occur_twice() -> None:
    """The directories of two brokers, of which each has __cluster_metadata-0."""
    env = FaultEnv()
    for name in ("x/__cluster_metadata-0", "x/a-0", "y/__cluster_metadata-0", "y/a-1"):
        env.mkdir(f"/{name}")
    found = find_partitions(env, ["/x", "/y"], lambda topic, _: topic == "a")
    assert [it.path for it in found] == ["/x/a-0", "/y/a-1"]
    with pytest.raises(LogReadingError, match="__cluster_metadata-0 is in"):
        find_partitions(env, ["/x", "/y"])
    with pytest.raises(LogReadingError, match="__cluster_metadata-0 is in"):
        find_partitions(env, ["/x", "/y"], lambda topic, _: topic != "a")


def test_a_prepared_swap_replaces_its_segments() -> None:
    env = FaultEnv()
    three_segments(env)
    write_log(env, segment(1, 5), ".log.swap", base_offset=0)
    assert names(env) == [".log.swap", "6.log"]
    assert [row["offset"] for row in read(env, look(env, "/logs"))] == [1, 5, 6, 7]
    remove(env, 0)
    assert [row["offset"] for row in read(env, look(env, "/logs"))] == [1, 5, 6, 7]


@pytest.mark.parametrize("cleaned", [0, 3])
def test_a_swap_beside_a_cleaned_segment(cleaned: int) -> None:
    """A swap at or before it was not fully prepared, so that all segments to be replaced still exist."""
    env = FaultEnv()
    three_segments(env)
    write_log(env, segment(4), ".log.swap", base_offset=3)
    write_log(env, segment(1), ".log.cleaned", base_offset=cleaned)
    assert names(env) == [".log", "3.log", "6.log"]


def test_segments_deleted_after_planning_are_reported_as_lost() -> None:
    env = FaultEnv()
    three_segments(env)
    ranges = plan_ranges(env, look(env, "/logs"), 0, 8, range_bytes=1)
    remove(env, 0)
    with pytest.raises(
        DataLossError, match=r"offsets 0 to 2 of t-0 are gone: the log starts later now .*=false"
    ):
        rows_in(env, ranges)
    assert [row["offset"] for row in rows_in(env, ranges, LOSING)] == [3, 4, 5, 6, 7]
    remove(env, 3)
    remove(env, 6)
    with pytest.raises(DataLossError, match="offsets 3 to 5 of t-0 are gone: the partition is gone"):
        rows_in(env, ranges[1:])
    assert rows_in(env, ranges, LOSING) == []


def test_a_topic_created_again_after_planning() -> None:
    """The offsets belong to other records."""
    env = FaultEnv()
    three_segments(env)
    metadata = PartitionMetadataFile(env, f"{DIRECTORY}/{PARTITION_METADATA}")
    metadata.write(TOPIC_ID)
    ranges = plan_ranges(env, look(env, "/logs"), 0, 8)
    assert [row["offset"] for row in rows_in(env, ranges)] == list(range(8))
    metadata.write(TOPIC_ID[::-1])
    with pytest.raises(
        DataLossError, match="offsets 0 to 7 of t-0 are gone: the topic was deleted and created again"
    ):
        rows_in(env, ranges)
    assert rows_in(env, ranges, LOSING) == []
    assert [row["offset"] for row in read(env, look(env, "/logs"))] == list(range(8))
    env.remove(f"{DIRECTORY}/{PARTITION_METADATA}")
    assert [row["offset"] for row in rows_in(env, ranges)] == list(range(8))


def test_offsets_of_a_truncated_log_are_lost() -> None:
    env = FaultEnv()
    three_segments(env)
    ranges = plan_ranges(env, look(env, "/logs"), 0, 8)
    write_log(env, segment(6), base_offset=6)
    with pytest.raises(DataLossError, match="offsets 7 to 7 of t-0 are gone: the log ends before"):
        rows_in(env, ranges)


def test_a_segment_that_was_compacted_after_it_was_planned() -> None:
    env = FaultEnv()
    three_segments(env)
    ranges = plan_ranges(env, look(env, "/logs"), 0, 8, range_bytes=1)
    write_log(env, segment(1, 4), base_offset=0)
    remove(env, 3)
    assert [row["offset"] for row in rows_in(env, ranges)] == [1, 4, 6, 7]


def test_a_segment_that_is_open_is_read_to_its_end() -> None:
    from barnabas.pipeline.log_reading.range_reader import RangeWalk

    env = FaultEnv()
    three_segments(env)
    [wanted] = plan_ranges(env, look(env, "/logs"), 0, 8)
    walk = iter(RangeWalk(env, wanted, fail_on_data_loss=True))
    assert next(walk).base_offset == 0
    remove(env, 0)
    assert [batch.base_offset for batch in walk] == [1, 2, 3, 4, 5, 6, 7]


def test_two_segments_that_become_one_while_the_first_is_read() -> None:
    from barnabas.pipeline.log_reading.range_reader import RangeWalk

    env = FaultEnv()
    three_segments(env)
    [wanted] = plan_ranges(env, look(env, "/logs"), 0, 8)
    walk = iter(RangeWalk(env, wanted, fail_on_data_loss=True))
    assert next(walk).base_offset == 0
    remove(env, 0)
    remove(env, 3)
    write_log(env, segment(2, 4, 5), base_offset=0)
    assert [batch.base_offset for batch in walk] == [1, 2, 4, 5, 6, 7]


def test_the_end_of_a_log_that_was_compacted_away() -> None:
    env = FaultEnv()
    three_segments(env)
    ranges = plan_ranges(env, look(env, "/logs"), 0, 8)
    write_log(env, segment(6), base_offset=6)
    write_log(env, b"", base_offset=8)
    assert [row["offset"] for row in rows_in(env, ranges)] == [0, 1, 2, 3, 4, 5, 6]


class RestlessEnv(FaultEnv):
    """A directory that gains a segment with each listing."""

    looks = 0

    def scan_dir(self, path: str) -> list[tuple[str, bool]]:
        self.looks += 1
        return [*super().scan_dir(path), (f"{self.looks:020d}.log", False)]


def test_a_directory_that_changes_at_each_listing() -> None:
    env = RestlessEnv()
    three_segments(env)
    with pytest.raises(BusyDirectoryError, match="changed during each of"):
        list_segments(env, DIRECTORY)


def test_a_partition_that_is_gone_or_empty() -> None:
    env = FaultEnv()
    env.mkdir("/logs/t-0")
    with pytest.raises(NoSuchLogError, match="has no segment in it"):
        look(env, "/logs")
    with pytest.raises(NoSuchLogError, match="is gone"):
        list_segments(env, "/logs/t-1")
