"""Rules of replication, each broken on purpose, with the seeds that have to notice.

`Mutation.apply` breaks one rule of the fetchers, of the broker's leader and follower ("own"), of the second opinion
on them, or of the controller, for one run of the simulation.
Those without a `found` seed have not been noticed by any seed so far: `UNNOTICED` says why, where that is known.

python -m tests.simulation.cluster.mutations           the first seed of each that fails
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.fetch.session import FetchSession
from barnabas.broker.metadata.topics import NO_LEADER
from barnabas.broker.replica import isr
from barnabas.broker.replica.fetcher import fetcher as fetcher_module
from barnabas.broker.replica.fetcher.fetch_state import PartitionFetchState
from barnabas.broker.replica.fetcher.fetched import FetchedPartition
from barnabas.broker.replica.fetcher.fetcher import ReplicaFetcher
from barnabas.broker.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.broker.replica.fetcher.session import FetchSessionHandler
from barnabas.broker.replica.isr import PartitionLeader, PendingExpand, PendingShrink
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.roles import ReplicaRoles
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.log import unified_log
from barnabas.storage.log.leader_epochs import LeaderEpochFileCache
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import LogLoader
from barnabas.storage.offsets import EpochEndOffset
from tests.simulation.cluster import member_run
from tests.simulation.cluster.broker import Run
from tests.simulation.cluster.controller import ModelController
from tests.simulation.cluster.partition import RemoteReplica, ReplicatedPartition
from tests.simulation.cluster.scenario import Scenario

Patch = pytest.MonkeyPatch


class Mutation(NamedTuple):
    """A broken rule. `found` is a seed that notices, tried first; `settings` narrow the scenarios."""

    name: str
    apply: Callable[[Patch], None]
    settings: Mapping[str, Any]
    found: int | None


MUTATIONS: list[Mutation] = []
SEEDS: Final = 150
"""As many may be tried for each."""


def mutation(
    name: str, found: int | None = None, **settings: Any
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def declare(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTATIONS.append(Mutation(name, apply, settings, found))
        return apply

    return declare


def first_found(mutated: Mutation) -> tuple[int, str] | None:
    """The first seed that fails, and how; None where none does."""
    first = () if mutated.found is None else (mutated.found,)
    for seed in (*first, *range(SEEDS)):
        failure = failure_of(mutated, seed)
        if failure is not None:
            return seed, failure
    return None


def failure_of(mutated: Mutation, seed: int) -> str | None:
    """How a seed fails under the mutation; None where it does not."""
    with pytest.MonkeyPatch.context() as patch:
        mutated.apply(patch)
        try:
            Scenario(seed, **mutated.settings).run()
        except AssertionError as violation:
            return str(violation).split("\n", maxsplit=1)[0]
    return None


# ---- the follower: truncation


@mutation("a follower does not truncate at a divergence", found=1)
def _(patch: Patch) -> None:
    patch.setattr(fetcher_module, "truncation_offset", lambda log, leader, initial: log.log_end_offset)


@mutation("a follower truncates to the leader's end of the epoch, whatever its own is", found=16)
def _(patch: Patch) -> None:
    patch.setattr(
        fetcher_module,
        "truncation_offset",
        lambda log, leader, initial: min(leader.end_offset, log.log_end_offset),
    )


@mutation("a follower truncates to its high watermark", found=49)
def _(patch: Patch) -> None:
    patch.setattr(fetcher_module, "truncation_offset", lambda log, leader, initial: log.high_watermark)


@mutation("a follower does not say which epoch it fetched last", found=1)
def _(patch: Patch) -> None:
    original = PartitionFetchState.resume

    def resume(self: PartitionFetchState) -> None:
        original(self)
        self.last_fetched_epoch = -1

    patch.setattr(PartitionFetchState, "resume", resume)
    patch.setattr(PartitionFetchState, "is_ready", _without_epoch)


def _without_epoch(self: PartitionFetchState, now: float) -> bool:
    self.last_fetched_epoch = -1
    return self.phase.value == "Fetching" and self.delayed_until <= now


@mutation("a follower empties its log where the leader begins later, but keeps its old epochs")
def _(patch: Patch) -> None:
    patch.setattr(LeaderEpochFileCache, "clear_and_flush", lambda self: None)


@mutation("a truncation leaves the epochs of what it removed", found=4)
def _(patch: Patch) -> None:
    patch.setattr(LeaderEpochFileCache, "truncate_from_end", lambda self, end_offset: None)


@mutation("a truncation leaves the producer state", found=46)
def _(patch: Patch) -> None:
    patch.setattr(UnifiedLog, "rebuild_producer_state", lambda self: None)


@mutation("a shorter leader does not shorten its followers", found=1)
def _(patch: Patch) -> None:
    def take_latest(self: ReplicaFetcher, state: PartitionFetchState, leader_end: int) -> None:
        state.leader_end_offset = max(leader_end, state.log.log_end_offset)

    patch.setattr(ReplicaFetcher, "_take_latest", take_latest)
    patch.setattr(
        ReplicaFetcher, "_follow_divergence", lambda self, state, leader, start: self._delay([state.key])
    )


@mutation("a follower does not ask again for offsets that it could not use", found=161636945)
def _(patch: Patch) -> None:
    patch.setattr(FetchSessionHandler, "hear_again", lambda self, key: None)


@mutation("a follower keeps what it has before its leader's log start", found=60100509)
def _(patch: Patch) -> None:
    original = ReplicaFetcher._follow_divergence

    def follow(self: ReplicaFetcher, state: PartitionFetchState, leader: EpochEndOffset, start: int) -> None:
        original(self, state, leader, 0)

    patch.setattr(ReplicaFetcher, "_follow_divergence", follow)


@mutation("a kill that undoes a deletion leaves the epochs deleted", found=700001387)
def _(patch: Patch) -> None:
    patch.setattr(LogLoader, "_recall_epochs", lambda self: None)


@mutation("a broker keeps the gaps that a power cut left in its logs", found=156537136)
def _(patch: Patch) -> None:
    patch.setattr(member_run, "truncate_at_gaps", lambda logs, image, node_id: None)


# ---- the follower: answers and epochs


@mutation("a follower takes answers to what it asked for before", found=41)
def _(patch: Patch) -> None:
    original = ReplicaFetcher._apply

    def apply(self: ReplicaFetcher, work: FetchedPartition) -> int:
        state = self._states.get(work.key)
        if state is not None:
            work.leader_epoch = max(work.leader_epoch, state.leader_epoch)
            state.leader_epoch = work.leader_epoch
        return original(self, work)

    patch.setattr(ReplicaFetcher, "_apply", apply)


@mutation("a fetcher goes on with a partition that was taken from it", found=1)
def _(patch: Patch) -> None:
    patch.setattr(ReplicaFetcherManager, "remove", lambda self, keys: None)


@mutation("a follower takes the high watermark of an answer that diverges")
def _(patch: Patch) -> None:
    original = ReplicaFetcher._follow_divergence

    def follow(self: ReplicaFetcher, state: PartitionFetchState, leader: Any, start: int) -> None:
        state.log.update_follower_high_watermark(state.log.log_end_offset)
        original(self, state, leader, start)

    patch.setattr(ReplicaFetcher, "_follow_divergence", follow)


@mutation("a follower's high watermark is its log's end", found=2)
def _(patch: Patch) -> None:
    original = ReplicaFetcher._follow_offsets

    def follow(self: ReplicaFetcher, log: Any, data: Any) -> None:
        data.high_watermark = log.log_end_offset
        original(self, log, data)

    patch.setattr(ReplicaFetcher, "_follow_offsets", follow)


@mutation("a follower never learns the high watermark", found=0)
def _(patch: Patch) -> None:
    patch.setattr(Partition, "update_follower_high_watermark", lambda self, high_watermark: False)


@mutation("a follower does not follow the log start offset", found=1)
def _(patch: Patch) -> None:
    patch.setattr(Partition, "maybe_increment_log_start_offset", lambda self, offset: False)


@mutation("a fetcher that got no response asks no more", found=0)
def _(patch: Patch) -> None:
    def failed(self: ReplicaFetcher, keys: Any, error: Any) -> None:
        self._disconnect()

    patch.setattr(ReplicaFetcher, "_failed_to_ask", failed)


@mutation(
    "a session goes on after an error, though its leader may have gone on without the follower", found=1
)
def _(patch: Patch) -> None:
    patch.setattr(
        "barnabas.broker.replica.fetcher.session.FetchSessionHandler.handle_error", lambda self: None
    )


@mutation("a delay never ends", found=0)
def _(patch: Patch) -> None:
    def delay(self: ReplicaFetcher, keys: Any) -> None:
        for key in keys:
            if key in self._states:
                self._states[key].delayed_until = 1e18

    patch.setattr(ReplicaFetcher, "_delay", delay)


@mutation("a partition fenced by its leader is dropped for good", found=7)
def _(patch: Patch) -> None:
    original = ReplicaFetcherManager.add

    def add(self: ReplicaFetcherManager, partition: Any, initial: Any) -> None:
        if partition.key not in self._failed:
            original(self, partition, initial)

    def remove(self: ReplicaFetcherManager, keys: Any) -> None:
        for key in keys:
            place = self._places.pop(key, None)
            if place is not None:
                self._fetchers[place].remove(key)

    patch.setattr(ReplicaFetcherManager, "add", add)
    patch.setattr(ReplicaFetcherManager, "remove", remove)


# ---- the broker's own leader


@mutation("own: the high watermark is the leader's end", found=0)
def _(patch: Patch) -> None:
    patch.setattr(PartitionLeader, "committed_end", lambda self, log_end, high_watermark, min_isr: log_end)


@mutation("own: the high watermark does not wait for a pending expansion", found=41)
def _(patch: Patch) -> None:
    patch.setattr(PendingExpand, "maximal_isr", property(lambda self: self.committed.isr))
    patch.setattr(PartitionLeader, "_may_join_soon", lambda self, remote, log_end: False)


@mutation("own: a shrink frees the high watermark before the controller has answered", found=1)
def _(patch: Patch) -> None:
    def maximal(self: PendingShrink) -> tuple[int, ...]:
        return tuple(node for node in self.committed.isr if node not in self.out)

    patch.setattr(PendingShrink, "maximal_isr", property(maximal))


@mutation("own: the high watermark moves under min ISR", found=15)
def _(patch: Patch) -> None:
    original = PartitionLeader.committed_end
    patch.setattr(
        PartitionLeader,
        "committed_end",
        lambda self, log_end, high_watermark, min_isr: original(self, log_end, high_watermark, 0),
    )


@mutation("own: a replica joins the ISR without what is committed", found=65)
def _(patch: Patch) -> None:
    original = PartitionLeader.maybe_expand

    def expand(self: PartitionLeader, remote: Any, high_watermark: int) -> None:
        start, self.epoch_start = self.epoch_start, 0
        original(self, remote, 0)
        self.epoch_start = start

    patch.setattr(PartitionLeader, "maybe_expand", expand)


@mutation("own: a new leader takes followers for complete", found=19)
def _(patch: Patch) -> None:
    original = isr.RemoteReplica.reset

    def reset(self: isr.RemoteReplica, now_ms: int, epoch_start: int, **how: Any) -> None:
        original(self, now_ms, epoch_start, **how)
        self.log_end_offset = epoch_start

    patch.setattr(isr.RemoteReplica, "reset", reset)


@mutation("own: a proposed ISR counts as committed", found=1)
def _(patch: Patch) -> None:
    original = PartitionLeader._propose

    def propose(self: PartitionLeader, context: Any, state: Any) -> None:
        original(self, context, state)
        self.state = isr.Committed(tuple(node for node, _ in state.proposal.isr))

    patch.setattr(PartitionLeader, "_propose", propose)


@mutation("own: a proposal that was surely not applied counts as applied")
def _(patch: Patch) -> None:
    original = PartitionLeader._answered

    def answered(self: PartitionLeader, context: Any, state: Any, result: Any) -> None:
        pending = self.state
        if pending is state and not isinstance(pending, isr.Committed) and result.error in isr.NOT_APPLIED:
            self.state = isr.Committed(tuple(node for node, _ in pending.proposal.isr))
        else:
            original(self, context, state, result)

    patch.setattr(PartitionLeader, "_answered", answered)


@mutation("own: an answer that is older than the image counts", found=4)
def _(patch: Patch) -> None:
    original = PartitionLeader._answered

    def answered(self: PartitionLeader, context: Any, state: Any, result: Any) -> None:
        self.state = state
        original(self, context, state, result)

    patch.setattr(PartitionLeader, "_answered", answered)


@mutation("own: the ISR never shrinks")
def _(patch: Patch) -> None:
    patch.setattr(PartitionLeader, "maybe_shrink", lambda self, log_end: ())


@mutation("own: the ISR never grows", found=0)
def _(patch: Patch) -> None:
    patch.setattr(PartitionLeader, "maybe_expand", lambda self, remote, high_watermark: None)


@mutation("own: a refused proposal is never repeated, and none follows")
def _(patch: Patch) -> None:
    patch.setattr(PartitionLeader, "_answered", lambda self, context, state, result: None)


@mutation("own: what a fetch that diverges asks for counts", found=10)
def _(patch: Patch) -> None:
    original = ReplicaReader._read_partition

    def read(self: ReplicaReader, params: Any, entry: Any, limit: int, **how: Any) -> Any:
        data = original(self, params, entry, limit, **how)
        if data.diverging_epoch.epoch >= 0 and params.replica_id >= 0:
            partition = self._replicas.partition(entry.topic, entry.index)
            self._follower_read(partition, params, entry, data, is_first=True)
        return data

    patch.setattr(ReplicaReader, "_read_partition", read)


@mutation("own: an image that comes during a truncation is lost")
def _(patch: Patch) -> None:
    patch.setattr(ReplicaRoles, "hold", lambda self, topic, image: None)


@mutation("own: a partition stays at its fetcher when this broker begins to lead", found=1)
def _(patch: Patch) -> None:
    patch.setattr(ReplicaRoles, "stop_fetching", lambda self, key: None)


@mutation("own: a later leader epoch does not restart the fetching", found=0)
def _(patch: Patch) -> None:
    def change(self: ReplicaRoles, partition: Any, image: Any) -> None:
        known = partition.is_leader
        partition.update(image)
        if image.leader == self._node_id:
            self.stop_fetching(partition.key)
        elif known:
            self.follow(partition)

    patch.setattr(ReplicaRoles, "change", change)


@mutation("own: a follower's partition that rests is not woken", found=0)
def _(patch: Patch) -> None:
    patch.setattr(FetchSession, "wake", lambda self, entry: None)


# ---- the leader of the second opinion: high watermark


@mutation("the high watermark is the leader's end", found=0, second_opinion=True)
def _(patch: Patch) -> None:
    def increment(self: ReplicatedPartition) -> bool:
        end = self.log.log_end_offset
        moves = end > self.log.high_watermark
        self.log.update_high_watermark(end)
        return moves

    patch.setattr(ReplicatedPartition, "maybe_increment_high_watermark", increment)


@mutation(
    "the high watermark waits for the committed ISR only, not for a pending expansion",
    found=24,
    second_opinion=True,
)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "maximal_isr", property(lambda self: frozenset(self.isr)))
    patch.setattr(RemoteReplica, "is_caught_up", _caught_up_only_in_isr)


def _caught_up_only_in_isr(self: RemoteReplica, leader_end: int, now: float, lag_max_s: float) -> bool:
    return self.end == leader_end


@mutation(
    "a shrink frees the high watermark before the controller has answered", found=1, second_opinion=True
)
def _(patch: Patch) -> None:
    def maximal(self: ReplicatedPartition) -> frozenset[int]:
        return frozenset(self.isr if self.change is None else self.change.proposed)

    patch.setattr(ReplicatedPartition, "maximal_isr", property(maximal))
    patch.setattr(RemoteReplica, "is_caught_up", _caught_up_only_in_isr)


@mutation("the high watermark moves under min ISR", found=29, second_opinion=True)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "effective_min_isr", property(lambda self: 1))


@mutation("a new leader keeps what it knew of its followers", found=738, second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition.make_follower

    def make_follower(self: ReplicatedPartition, image: Any) -> bool:
        remotes = self.remotes
        rose = original(self, image)
        self.remotes = remotes
        return rose

    patch.setattr(ReplicatedPartition, "make_follower", make_follower)
    patch.setattr(RemoteReplica, "reset", _keep)


def _keep(self: RemoteReplica, *, now: float, leader_end: int, is_new_leader: bool, in_sync: bool) -> None:
    if not hasattr(self, "end"):
        self.end = self.log_start = self.leader_end_at_fetch = -1
        self.last_fetch = self.last_caught_up = now
        self.broker_epoch = -1


@mutation(
    "a new leader counts followers that it has not heard of as if they had everything",
    found=8,
    second_opinion=True,
)
def _(patch: Patch) -> None:
    original = RemoteReplica.reset

    def reset(
        self: RemoteReplica, *, now: float, leader_end: int, is_new_leader: bool, in_sync: bool
    ) -> None:
        original(self, now=now, leader_end=leader_end, is_new_leader=is_new_leader, in_sync=in_sync)
        self.end = leader_end

    patch.setattr(RemoteReplica, "reset", reset)


@mutation("a follower that diverges is believed to have what it asks for", found=3, second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition.read

    def read(self: ReplicatedPartition, wanted: Any, **how: Any) -> Any:
        data = original(self, wanted, **how)
        remote = self.remotes.get(how["replica_id"])
        if data.diverging_epoch.epoch >= 0 and remote is not None:
            self._follower_fetched(remote, wanted, self.log.log_end_offset, how["replica_epoch"])
        return data

    patch.setattr(ReplicatedPartition, "read", read)


@mutation("the second read of a waiting fetch updates the follower too", second_opinion=True)
def _(patch: Patch) -> None:
    original = Run._read

    def read(self: Run, request: Any, context: Any, replica_id: int, *, updates: bool) -> Any:
        return original(self, request, context, replica_id, updates=True)

    patch.setattr(Run, "_read", read)


# ---- the leader: ISR


@mutation("a replica joins the ISR below the high watermark", found=65, second_opinion=True)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "is_in_sync_enough", lambda self, remote: remote.end >= 0)


@mutation(
    "a replica joins the ISR below the start of the leader's epoch",
    found=328,
    unclean=False,
    second_opinion=True,
)
def _(patch: Patch) -> None:
    patch.setattr(
        ReplicatedPartition, "is_in_sync_enough", lambda self, remote: remote.end >= self.log.high_watermark
    )


@mutation("an ISR change is taken as done when it is proposed", found=1, second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition._propose

    def propose(self: ReplicatedPartition, change: Any) -> None:
        change.maximal = frozenset(change.proposed)
        original(self, change)
        self.isr = change.proposed
        self.maybe_increment_high_watermark()

    patch.setattr(ReplicatedPartition, "_propose", propose)


@mutation("a refused expansion counts", second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition._answered

    def answered(self: ReplicatedPartition, change: Any, answer: Any) -> None:
        pending = self.change
        if pending is not None and pending is change and answer.error is not ErrorCode.NONE:
            self.isr, self.change = pending.proposed, None
        else:
            original(self, change, answer)

    patch.setattr(ReplicatedPartition, "_answered", answered)


@mutation("the ISR never shrinks", second_opinion=True)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "maybe_shrink_isr", lambda self: None)


@mutation("the ISR never grows", found=0, second_opinion=True)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "maybe_expand_isr", lambda self, remote: None)


@mutation("metadata older than the leader's own are applied", second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition._answered

    def answered(self: ReplicatedPartition, change: Any, answer: Any) -> None:
        epoch = self.partition_epoch
        original(self, change, answer)
        self.partition_epoch = epoch  # what the answer says is forgotten, so that older metadata win

    patch.setattr(ReplicatedPartition, "_answered", answered)


@mutation("fetches of an earlier process of a broker count", second_opinion=True)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "is_eligible", lambda self, remote: True)
    original = ModelController._reject

    def reject(self: ModelController, request: Any, partition: Any) -> Any:
        return original(self, request._replace(isr=tuple((node, -1) for node, _ in request.isr)), partition)

    patch.setattr(ModelController, "_reject", reject)
    patch.setattr(Run, "alive_epoch", lambda self, broker_id: -1)


# ---- leader epochs


@mutation("a leader notes no epoch when it begins", found=66)
def _(patch: Patch) -> None:
    patch.setattr(UnifiedLog, "assign_epoch_start_offset", lambda self, epoch, start_offset: None)


@mutation("a leader does not check the epoch of a fetch", found=2063, second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition.check_leader
    patch.setattr(ReplicatedPartition, "check_leader", lambda self, epoch: original(self, -1))


@mutation("a deposed leader still acknowledges", found=2, second_opinion=True)
def _(patch: Patch) -> None:
    original = ReplicatedPartition.make_follower

    def make_follower(self: ReplicatedPartition, image: Any) -> bool:
        for waits in self._broker._produces.values():  # type: ignore[attr-defined]
            for wait in waits:
                if wait.partition is self and not wait.pending.done:
                    self.log.update_high_watermark(self.log.log_end_offset)
        self._broker.moved(self)
        return original(self, image)

    patch.setattr(ReplicatedPartition, "make_follower", make_follower)


@mutation("acks=all does not wait for the high watermark", found=1, second_opinion=True)
def _(patch: Patch) -> None:
    patch.setattr(ReplicatedPartition, "is_replicated", lambda self, required_offset: ErrorCode.NONE)


# ---- the controller


@mutation("a fenced broker stays in the ISR", found=0)
def _(patch: Patch) -> None:
    def remove(self: ModelController, broker_id: int, *, also_from_elr: bool = False) -> None:
        for key, partition in sorted(self.partitions.items()):
            if partition.leader == broker_id:
                leader = next((node for node in partition.replicas if self.is_active(node)), NO_LEADER)
                self._change(key, leader=leader)

    patch.setattr(ModelController, "_remove_from_isrs", remove)


@mutation("an alteration by a stale leader is taken", found=1)
def _(patch: Patch) -> None:
    patch.setattr(ModelController, "_reject", lambda self, request, partition: None)


@mutation("a leader is elected from all replicas", found=0)
def _(patch: Patch) -> None:
    def elected(self: ModelController, key: Any, isr: Any, partition: Any, gone: Any = ()) -> int:
        return next((node for node in reversed(partition.replicas) if self.is_active(node)), NO_LEADER)

    patch.setattr(ModelController, "_elected", elected)


@mutation("a replica of an unfinished reassignment counts as in sync", found=48)
def _(patch: Patch) -> None:
    original = ModelController.reassign

    def reassign(self: ModelController, key: Any, target: Any) -> None:
        original(self, key, target)
        partition = self.partitions[key]
        if partition.adding_replicas:
            self._change(key, isr=(*partition.isr, *partition.adding_replicas), leader=None)
            self._complete_reassignment(key)
            self._publish()

    patch.setattr(ModelController, "reassign", reassign)


UNNOTICED: Final = {
    "a follower takes the high watermark of an answer that diverges": (
        "the truncation takes it back to where the leader has the same records, which are seldom lost after that"
    ),
    "a follower empties its log where the leader begins later, but keeps its old epochs": (
        "they begin before the log does, and the next epoch that is noted drops what is wrong"
    ),
    "own: a proposal that was surely not applied counts as applied": (
        "the high watermark waits for the refused replica, so that nothing is lost"
    ),
    "own: the ISR never shrinks": "records only wait; test_cluster has a follower that cannot fetch",
    "own: a refused proposal is never repeated, and none follows": "the next image ends what is pending",
    "own: an image that comes during a truncation is lost": (
        "a change of role within a truncation is rare, and the next image makes up for it"
    ),
    "a refused expansion counts": "as with the broker's own",
    "the second read of a waiting fetch updates the follower too": (
        "it only makes lagging replicas leave the ISR later, which no invariant is about"
    ),
    "metadata older than the leader's own are applied": (
        "newer ones follow before the high watermark has passed a member that the older ones leave out"
    ),
    "the ISR never shrinks": "as with the broker's own",
    "fetches of an earlier process of a broker count": (
        "only a fetch that was held back on the way while its sender lost records would show it"
    ),
}
"""The mutations that SEEDS seeds did not notice."""

IN_COMPILED_MODULES: Final = frozenset(
    {
        "a follower empties its log where the leader begins later, but keeps its old epochs",
        "a truncation leaves the epochs of what it removed",
        "a truncation leaves the producer state",
        "a follower never learns the high watermark",
        "a follower does not follow the log start offset",
        "own: what a fetch that diverges asks for counts",
        "own: a follower's partition that rests is not woken",
        "a leader notes no epoch when it begins",
    }
)
"""Those that change a class which may be compiled: its methods call each other past the change then."""

ARE_COMPILED: Final = not str(unified_log.__file__).endswith(".py")


def main() -> int:
    logging.disable(logging.CRITICAL)
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    every = int(part) if part.isdigit() else 0
    for number, mutated in enumerate(MUTATIONS):
        if (every and number % 2 != every % 2) or (not every and part not in mutated.name):
            continue
        found = first_found(mutated)
        print(
            f"{'NOT FOUND' if found is None else f'seed {found[0]}':10} {mutated.name}: {found[1] if found else ''}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
