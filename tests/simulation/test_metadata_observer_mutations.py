"""The simulation of the observer finds the faults that it is there to find: each test breaks one rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.metadata import observed_image, observer
from barnabas.broker.metadata.image import MetadataDelta
from barnabas.broker.metadata.log_replay import LogReplay
from barnabas.broker.metadata.observed_image import ObservedImage
from barnabas.broker.metadata.observer import MetadataObserver
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.quorum_view import QuorumView, Verdict, judge
from barnabas.broker.metadata.raft_snapshots import RaftSnapshots
from barnabas.protocol.errors import ErrorCode
from tests.simulation.metadata_observer import live

SEEDS = range(150)


def found() -> str:
    """The failure of the first seed that fails; fails when none does."""
    for seed in SEEDS:
        try:
            live(seed)
        except Exception as violation:
            return f"{type(violation).__name__}: {violation}"
    pytest.fail(f"none of {len(SEEDS)} seeds notices")


def replaced(patch: pytest.MonkeyPatch, owner: Any, name: str, new: Callable[..., Any]) -> None:
    """Has `owner.name` call `new(original, self, ...)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *arguments, **named: new(original, *arguments, **named))


def test_an_append_that_is_committed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(original: Any, self: ObserverRaftLog, *arguments: Any) -> None:
        original(self, *arguments)
        self._log.update_high_watermark(self.end_offset)

    replaced(monkeypatch, ObserverRaftLog, "append", append)
    assert "beyond what is committed" in found()


def test_a_divergence_that_truncates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObserverRaftLog, "truncate", lambda *arguments: None)
    assert found()


def test_a_divergence_that_truncates_one_record_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(
        monkeypatch,
        ObserverRaftLog,
        "truncate",
        lambda original, self, epoch, end: original(self, epoch, end + 1),
    )
    assert found()


def test_a_divergence_that_takes_our_end_of_the_epoch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(self: ObserverRaftLog, epoch: int, _end: int) -> None:
        ours = self._log.leader_epoch_cache.end_offset_for(epoch, self.end_offset)
        self._log.truncate_to(self.end_offset if ours is None else ours.end_offset)

    monkeypatch.setattr(ObserverRaftLog, "truncate", truncate)
    assert found()


def test_a_fetch_that_names_the_wrong_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObserverRaftLog, "last_epoch", property(lambda self: self.raft.latest_epoch))
    assert found()


def test_an_older_leader_that_is_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def gullible(view: QuorumView, error: int, named: QuorumView) -> tuple[Verdict, QuorumView]:
        verdict, after = judge(view, error, named)
        return (Verdict.CHANGE, named) if verdict is Verdict.IGNORE else (verdict, after)

    monkeypatch.setattr(observer, "judge", gullible)
    assert "the epoch falls" in found()


def test_a_new_epoch_that_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(view: QuorumView, error: int, named: QuorumView) -> tuple[Verdict, QuorumView]:
        if view.has_leader and error == ErrorCode.FENCED_LEADER_EPOCH:
            return Verdict.IGNORE, view
        return judge(view, error, named)

    monkeypatch.setattr(observer, "judge", deaf)
    assert found()


def test_a_state_that_is_not_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the node begins in an older epoch."""

    def follow(original: Any, self: MetadataObserver, *arguments: Any) -> None:
        self._run = lambda work, then: then()  # type: ignore[method-assign]
        try:
            original(self, *arguments)
        finally:
            del self._run

    replaced(monkeypatch, MetadataObserver, "_follow", follow)
    assert "the epoch falls" in found()


def test_a_silent_leader_that_is_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced(
        monkeypatch,
        MetadataObserver,
        "_destination",
        lambda original, self: self._leader if self._leader is not None else original(self),
    )
    assert found()


def test_publishing_before_it_is_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def replayed(original: Any, self: ObservedImage, image: Any, delta: MetadataDelta) -> None:
        self.is_caught_up = True
        original(self, image, delta)

    replaced(monkeypatch, ObservedImage, "_replayed", replayed)
    assert found()


def test_a_snapshot_that_does_not_replace_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def restarted(original: Any, self: ObservedImage) -> Any:
        self._raft.replay = LogReplay()
        return self._continued(self.image)

    replaced(monkeypatch, ObservedImage, "_restarted", restarted)
    assert found()


def test_a_snapshot_whose_difference_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_image, "difference", lambda before, after: MetadataDelta())
    assert "leaves out a change" in found()


def test_a_snapshot_that_is_installed_half(monkeypatch: pytest.MonkeyPatch) -> None:
    def install(original: Any, self: RaftSnapshots, snapshot_id: Any) -> None:
        self.ids = sorted({*self.ids, snapshot_id})

    replaced(monkeypatch, RaftSnapshots, "install", install)
    assert found()


def test_pieces_of_a_snapshot_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The position in the response is not looked at, and requests always name the first."""

    def fetch(original: Any, self: MetadataObserver, download: Any) -> Any:
        request = original(self, download)
        request.topics[0].partitions[0].position = 0
        return request

    replaced(monkeypatch, MetadataObserver, "_fetch_snapshot", fetch)
    assert found()


def test_records_that_are_replayed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay keeps what it has handed over, and hands it over again."""
    original = LogReplay.batches

    def batches(self: LogReplay, source: Any) -> Any:
        for batch in original(self, source):
            yield batch
            self._records = list(batch.records)

    monkeypatch.setattr(LogReplay, "batches", batches)
    assert found()


def test_news_during_a_replay_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def progressed(original: Any, self: ObservedImage) -> None:
        if not self._is_busy and self._leader_high_watermark() is None:
            original(self)

    replaced(monkeypatch, ObservedImage, "progressed", progressed)
    assert "published up to" in found()
