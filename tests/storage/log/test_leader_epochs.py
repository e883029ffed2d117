"""LeaderEpochFileCache: a table of its answers, and a comparison with a naive model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.log.checkpoints import LeaderEpochCheckpointFile
from barnabas.storage.log.flush import FlushJob
from barnabas.storage.log.leader_epochs import LeaderEpochFileCache
from barnabas.storage.offsets import EpochEndOffset
from tests.storage.fault_env import FaultEnv


def new_cache(entries: list[tuple[int, int]]) -> tuple[FaultEnv, LeaderEpochFileCache]:
    env = FaultEnv()
    env.mkdir("/d")
    return env, LeaderEpochFileCache(LeaderEpochCheckpointFile(env, "/d/leader-epoch-checkpoint"), entries)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, EpochEndOffset(7, 100)),  # the latest
        (8, None),  # beyond it
        (-1, None),
        (1, EpochEndOffset(1, 10)),  # below the first: the requested epoch, with the start of the first
        (2, EpochEndOffset(2, 20)),
        (3, EpochEndOffset(2, 20)),  # absent: the one below
        (4, EpochEndOffset(4, 50)),
        (6, EpochEndOffset(4, 50)),
    ],
)
def test_end_offset_for(asked: int, answer: EpochEndOffset | None) -> None:
    _, cache = new_cache([(2, 10), (4, 20), (7, 50)])
    assert cache.end_offset_for(asked, 100) == answer


def test_an_empty_cache_knows_nothing() -> None:
    _, cache = new_cache([])
    assert cache.latest_epoch == -1
    assert cache.end_offset_for(0, 10) is None
    assert cache.end_offset_for(-1, 10) is None
    assert cache.epoch_for_offset(5) == -1


def test_epoch_for_offset() -> None:
    _, cache = new_cache([(2, 10), (4, 20)])
    assert [cache.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 4, 4]


def test_an_epoch_begins_once() -> None:
    _, cache = new_cache([])
    cache.assign(0, 0)
    cache.assign(0, 10)
    cache.assign(2, 20)
    assert cache.entries == [(0, 0), (2, 20)]
    assert cache.latest_epoch == 2


def test_a_contradiction_drops_earlier_entries() -> None:
    _, cache = new_cache([(0, 0), (1, 10), (2, 20)])
    cache.assign(3, 10)
    assert cache.entries == [(0, 0), (3, 10)]
    cache.assign(1, 40)
    assert cache.entries == [(0, 0), (1, 40)]


def test_invalid_epochs_fail_an_assertion() -> None:
    _, cache = new_cache([])
    for epoch, offset in ((-2, 0), (0, -1)):
        with pytest.raises(ValueError, match="epoch"):
            cache.assign(epoch, offset)


def test_epochs_and_truncations_are_written_by_the_flush() -> None:
    env, cache = new_cache([])
    cache.assign(1, 0)
    assert not env.exists("/d/leader-epoch-checkpoint")
    job = FlushJob(env, up_to_offset=1, generation=0, files=[], paths=[], directory=None, sealed_segments=())
    cache.hand_to(job)
    job.run()
    assert env.read_file("/d/leader-epoch-checkpoint") == b"0\n1\n1 0\n"
    cache.assign(2, 5)
    cache.truncate_from_end(3)
    assert cache.is_dirty
    cache.flush()
    assert env.read_file("/d/leader-epoch-checkpoint") == b"0\n1\n1 0\n"
    cache.clear_and_flush()
    assert env.read_file("/d/leader-epoch-checkpoint") == b"0\n0\n"
    assert cache.latest_epoch == -1


def test_a_new_log_start_moves_the_epoch_at_that_offset() -> None:
    _, cache = new_cache([(0, 0), (1, 10), (2, 20)])
    cache.truncate_from_start(15)
    assert cache.entries == [(1, 15), (2, 20)]
    cache.truncate_from_start(20)
    assert cache.entries == [(2, 20)]
    cache.truncate_from_start(5)
    assert cache.entries == [(2, 20)]


appends = st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 5))
ends = st.tuples(st.just("end"), st.integers(0, 60), st.just(0))
starts = st.tuples(st.just("start"), st.integers(0, 60), st.just(0))


@given(st.lists(appends | ends | starts, max_size=30))
def test_the_cache_agrees_with_a_list_of_every_offset(steps: list[tuple[str, int, int]]) -> None:
    """The model is a list with the epoch of each offset."""
    _, cache = new_cache([])
    start = end = epoch = 0
    written: dict[int, int] = {}
    for step, amount, count in steps:
        if step == "append":
            epoch += amount
            cache.assign(epoch, end)
            written.update((end + index, epoch) for index in range(count))
            end += count
        elif step == "end" and start <= amount < end:
            cache.truncate_from_end(amount)
            end = amount
        elif step == "start" and start < amount < end:
            cache.truncate_from_start(amount)
            start = amount
        written = {offset: known for offset, known in written.items() if start <= offset < end}
        for offset, known in written.items():
            assert cache.epoch_for_offset(offset) == known
        entries = cache.entries
        assert entries == sorted(set(entries))
        assert [offset for _, offset in entries] == sorted({offset for _, offset in entries})
        for asked in set(written.values()):
            later = [offset for offset, known in written.items() if known > asked]
            found = cache.end_offset_for(asked, end)
            assert found is not None
            if later or asked == cache.latest_epoch:
                assert found == EpochEndOffset(asked, min(later, default=end))


def test_odd_epochs_and_offsets() -> None:
    _, cache = new_cache([(0, 0), (2, 10)])
    assert cache.end_offset_for(-1, 20) is None
    assert cache.end_offset_for(-2, 20) == EpochEndOffset(-2, 0)  # below all epochs, as Kafka answers
    assert cache.end_offset_for(-(1 << 31), 20) == EpochEndOffset(-(1 << 31), 0)
    assert cache.end_offset_for((1 << 31) - 1, 20) is None
    for offset in (-1, -5):
        cache.truncate_from_end(offset)
        cache.truncate_from_start(offset)
    assert cache.entries == [(0, 0), (2, 10)]
    assert cache.epoch_for_offset(-1) == -1
    cache.truncate_from_end(0)
    assert (cache.entries, cache.latest_epoch) == ([], -1)
    assert cache.end_offset_for(0, 20) is None
