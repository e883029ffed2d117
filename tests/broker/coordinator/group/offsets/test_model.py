"""Random commits, transactions, deletions and expirations, compared with the log.

The oracle reads the whole log each time: of each key the record with the highest offset after its last tombstone
counts, if it belongs to no transaction or to a committed one; the key is unstable while a transaction is open.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from barnabas.protocol.messages.group_state import OffsetCommitValue
from tests.broker.coordinator.group.offsets.offset_harness import (
    OffsetShard,
    ScriptedGroup,
    commit,
    commit_in_transaction,
    new_harness,
    offsets_in,
    topic_of,
)
from tests.broker.coordinator.shard_harness import Logged, ShardHarness

Key = tuple[str, str, int]
GROUPS, TOPICS, PRODUCERS = ("g", "h"), ("t", "u"), (1, 2, 3)
INTERVAL_MS, RETENTION_MINUTES = 60_000, 3

groups, topics = st.sampled_from(GROUPS), st.sampled_from(TOPICS)
partitions, producers = st.integers(0, 1), st.sampled_from(PRODUCERS)


def decision(log: list[Logged], at: int) -> bool | None:
    """The result of the transaction of the record at `at`; None while it is open."""
    producer_id = log[at].producer_id
    ends = (it.committed for it in log[at:] if it.record is None and it.producer_id == producer_id)
    return next(ends, None)


class Oracle:
    """The meaning of a log, by key: the value that counts, and whether an open transaction may change it."""

    def __init__(self, log: list[Logged]) -> None:
        self.counts: dict[Key, OffsetCommitValue] = {}
        self.unstable: set[Key] = set()
        for at, logged in enumerate(log):
            key: Any = logged.record and logged.record.key
            if logged.record is not None and hasattr(key, "topic"):
                self._take(log, at, (key.group, key.topic, key.partition), logged.record.value)

    def _take(self, log: list[Logged], at: int, key: Key, value: Any) -> None:
        if value is None:
            self.counts.pop(key, None)
            self.unstable.discard(key)
            return
        ended = True if log[at].producer_id == -1 else decision(log, at)
        if ended:
            self.counts[key] = value
        elif ended is None:
            self.unstable.add(key)


class OffsetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness: ShardHarness[OffsetShard] = new_harness(
            {
                "offsets.retention.minutes": str(RETENTION_MINUTES),
                "offsets.retention.check.interval.ms": str(INTERVAL_MS),
            }
        )
        self.next_offset = 0

    def offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    def group(self, group_id: str) -> ScriptedGroup | None:
        group = self.harness.shard.groups.find(group_id)
        assert group is None or isinstance(group, ScriptedGroup)
        return group

    @rule(group=groups, topic=topics, partition=partitions, minutes=st.sampled_from([-1, -1, 0, 2, 5]))
    def commits(self, group: str, topic: str, partition: int, minutes: int) -> None:
        retention_ms = minutes * 60_000 if minutes >= 0 else -1
        commit(
            self.harness,
            topic_of(topic, {partition: self.offset()}),
            group_id=group,
            retention_ms=retention_ms,
        )

    @rule(producer=producers, group=groups, topic=topics, partition=partitions)
    def commits_in_a_transaction(self, producer: int, group: str, topic: str, partition: int) -> None:
        commit_in_transaction(
            self.harness, producer, topic_of(topic, {partition: self.offset()}), group_id=group
        )

    @rule(producer=producers, committed=st.booleans())
    def ends(self, producer: int, committed: bool) -> None:
        self.harness.end_transaction(producer, committed=committed)

    @rule(group=groups, topic=topics, partition=partitions)
    def deletes(self, group: str, topic: str, partition: int) -> None:
        if self.group(group) is not None:
            self.harness.run(lambda shard: shard.offsets.delete(group, [(topic, [partition])], "somebody"))

    @rule(group=groups, subscribed=st.sets(topics), is_empty=st.booleans(), in_use=st.booleans())
    def becomes(self, group: str, subscribed: set[str], is_empty: bool, in_use: bool) -> None:
        """Changes the members of the group."""
        there = self.group(group)
        if there is not None:
            there.subscribed, there.is_empty, there.in_use = subscribed, is_empty, in_use

    @rule(looks=st.integers(1, 4))
    def time_passes(self, looks: int) -> None:
        """Advances the time up to the next check for expired offsets."""
        for _ in range(looks):
            self.next_look()

    def next_look(self) -> None:
        before = Oracle(self.harness.log)
        there = {name: group for name in GROUPS if (group := self.group(name)) is not None}
        self.harness.advance(INTERVAL_MS)
        expired = {
            key for key, value in before.counts.items() if self.expires(before, there[key[0]], key, value)
        }
        assert set(before.counts) - set(Oracle(self.harness.log).counts) == expired
        for name, group in there.items():
            is_left = any(key[0] == name for key in {*before.counts, *before.unstable} - expired)
            assert (self.group(name) is None) == (group.is_empty and not is_left)

    def expires(self, before: Oracle, group: ScriptedGroup, key: Key, value: OffsetCommitValue) -> bool:
        if group.in_use or key[1] in group.subscribed or key in before.unstable:
            return False
        if value.expire_timestamp >= 0:
            return self.harness.now_ms >= value.expire_timestamp
        return self.harness.now_ms - value.commit_timestamp >= RETENTION_MINUTES * 60_000

    @rule()
    def restarts(self) -> None:
        there = {name: self.group(name) for name in GROUPS}
        self.harness = self.harness.reloaded()
        for name, before in there.items():
            after = self.group(name)
            if before is not None and after is not None:
                after.subscribed, after.is_empty, after.in_use = (
                    before.subscribed,
                    before.is_empty,
                    before.in_use,
                )

    @invariant()
    def tells_what_the_log_says(self) -> None:
        oracle = Oracle(self.harness.log)
        for name in GROUPS:
            counts = {(key[1], key[2]): it.offset for key, it in oracle.counts.items() if key[0] == name}
            unstable = {(key[1], key[2]) for key in oracle.unstable if key[0] == name}
            assert offsets_in(self.harness, name) == counts
            stable = offsets_in(self.harness, name, require_stable=True)
            assert stable == {key: -1 if key in unstable else offset for key, offset in counts.items()}
            assert self.harness.shard.offsets.pending.has_open(name) == bool(unstable)
        assert self.harness.shard.offsets.committed.count == len(oracle.counts)


def test_any_sequence() -> None:
    run_state_machine_as_test(
        OffsetMachine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None)
    )
