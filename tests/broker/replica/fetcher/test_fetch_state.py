"""The state of a partition at its fetcher."""

from __future__ import annotations

from barnabas.broker.replica.fetcher.fetch_state import NO_OFFSET, FetchPhase, PartitionFetchState
from tests.broker.replica.fetcher.fetcher_harness import Disk, batch


def test_it_begins_with_the_last_epoch_of_the_log() -> None:
    log = Disk().follower()
    assert PartitionFetchState(log, 3, 0).last_fetched_epoch == -1
    log.append_as_follower(batch(0, epoch=2), 2)
    state = PartitionFetchState(log, 3, 1)
    assert (state.phase, state.last_fetched_epoch, state.is_in_sync) == (FetchPhase.FETCHING, 2, False)
    assert "t-0(Fetching from 1, epoch 3" in repr(state)


def test_without_an_offset_it_is_resetting() -> None:
    assert PartitionFetchState(Disk().follower(), 3, NO_OFFSET).phase is FetchPhase.RESETTING


def test_a_delay_ends_at_its_time() -> None:
    state = PartitionFetchState(Disk().follower(), 3, 0)
    assert state.is_ready(0.0)
    state.delayed_until = 5.0
    assert state.is_delayed(4.9)
    assert not state.is_ready(4.9)
    assert state.is_ready(5.0)


def test_it_is_in_sync_with_all_that_is_committed() -> None:
    state = PartitionFetchState(Disk().follower(), 3, 0)
    state.lag = 1
    assert not state.is_in_sync
    state.lag = 0
    assert state.is_in_sync


def test_it_resumes_where_the_log_ends() -> None:
    log = Disk().follower()
    state = PartitionFetchState(log, 3, NO_OFFSET)
    state.leader_end_offset = 9
    log.append_as_follower(batch(0, epoch=2), 2)
    state.resume()
    assert (state.phase, state.fetch_offset, state.last_fetched_epoch) == (FetchPhase.FETCHING, 1, 2)
    assert state.leader_end_offset is None


def test_the_end_of_a_truncation_without_a_fetcher_is_forgotten() -> None:
    state = PartitionFetchState(Disk().follower(), 3, 0)
    state.truncated(state, None)
    assert state.phase is FetchPhase.FETCHING
