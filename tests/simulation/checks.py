"""Invariants of every step. Each class records the broker's actions and the clients' knowledge, and raises
ViolationError once an invariant is violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.protocol.schema import Message
from tests.simulation.node import TopicPartition
from tests.simulation.reading import Read

if TYPE_CHECKING:
    from tests.simulation.consumer import Consumer
    from tests.simulation.world import World

GroupPartition = tuple[str, TopicPartition]


class ViolationError(AssertionError):
    """An invariant is violated."""


class Ownership:
    """The partitions that clients regard as theirs. Two clients may do so only if the group has removed one of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holders: dict[GroupPartition, list[Consumer]] = {}
        self._contested: dict[GroupPartition, None] = {}

    def claim(self, consumer: Consumer, partition: TopicPartition) -> None:
        if partition[0] in self._world.transient_topics:
            return  # the owner depends on the topic's id
        holders = self._holders.setdefault((consumer.group, partition), [])
        holders.append(consumer)
        if len(holders) > 1:
            self._contested[consumer.group, partition] = None
            self.check()

    def release(self, consumer: Consumer, partition: TopicPartition) -> None:
        holders = self._holders.get((consumer.group, partition), [])
        if consumer in holders:
            holders.remove(consumer)
        if len(holders) < 2:
            self._contested.pop((consumer.group, partition), None)

    def check(self) -> None:
        """Of the clients that hold the same partition no two may be members."""
        for group, partition in self._contested:
            valid = [one for one in self._holders[group, partition] if self.is_valid(one)]
            if len(valid) > 1:
                names = " and ".join(f"{one.name} ({one.member_id}, epoch {one.epoch})" for one in valid)
                raise ViolationError(f"{partition} of group {group} is owned by {names}, all of them members")

    def is_valid(self, consumer: Consumer) -> bool:
        """Whether the group regards it as the owner.

        A static member that misses a rebalance of a classic group stays in it, but its generation shows that it owns
        nothing any more.
        """
        members = self._world.members(consumer.group)
        if members is None or consumer.member_id not in members:
            return False
        generation = self._world.generation(consumer.group)
        return generation is None or consumer.instance_id is None or consumer.epoch >= generation

    def others(self, consumer: Consumer, partition: TopicPartition) -> list[Consumer]:
        """The other clients that regard it as theirs."""
        return [one for one in self._holders.get((consumer.group, partition), ()) if one is not consumer]

    def owners(self, group: str) -> dict[TopicPartition, list[Consumer]]:
        return {partition: list(found) for (of, partition), found in self._holders.items() if of == group}


class Commits:
    """Committed offsets: each acknowledged one is present, stays, and never decreases."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.certain: dict[GroupPartition, int] = {}
        self._begun: dict[GroupPartition, list[tuple[Message, int]]] = {}  # executed, response not sent yet
        self._at_fetch: dict[int, dict[GroupPartition, int]] = {}
        self.transactional: set[str] = set()

    def executed(self, client: Any, request: Message) -> None:
        if isinstance(request, OffsetCommitRequest):
            for partition, offset in self._offsets(request.topics):
                self._begun.setdefault((request.group_id, partition), []).append((request, offset))
        elif isinstance(request, OffsetFetchRequest):
            self._at_fetch[id(request)] = dict(self.certain)

    def answered(self, client: Any, request: Message, response: Message) -> None:
        if isinstance(request, OffsetCommitRequest):
            assert isinstance(response, OffsetCommitResponse)
            self._committed(client, request, response)
        elif isinstance(request, OffsetFetchRequest):
            assert isinstance(response, OffsetFetchResponse)
            self._fetched(client, request, response)
        elif isinstance(request, TxnOffsetCommitRequest):
            assert isinstance(response, TxnOffsetCommitResponse)
            for topic in response.topics:
                for one in topic.partitions:
                    if one.error_code == ErrorCode.NONE:
                        self._check_not_fenced(client, request.group_id, (topic.name, one.partition_index))

    def _committed(self, client: Any, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        offsets = dict(self._offsets(request.topics))
        for topic in response.topics:
            name = topic.name or self._world.topic_name(topic.topic_id)
            for one in topic.partitions:
                partition = (name, one.partition_index)
                begun = self._begun.get((request.group_id, partition), [])
                if one.error_code == ErrorCode.NONE:
                    self._check_not_fenced(client, request.group_id, partition)
                    self._now(request.group_id, partition, offsets.get(partition, 0))
                    mine = [number for number, (of, _) in enumerate(begun) if of is request]
                    del begun[: mine[0] + 1 if mine else 0]
                elif one.error_code not in _UNDECIDED:
                    begun[:] = [entry for entry in begun if entry[0] is not request]

    def _now(self, group: str, partition: TopicPartition, offset: int) -> None:
        if partition[0] in self._world.transient_topics:
            return
        before = self.certain.get((group, partition), -1)
        if offset < before:
            raise ViolationError(
                f"the offset of group {group} in {partition} went back from {before} to {offset}"
            )
        self.certain[group, partition] = offset

    def _check_not_fenced(self, client: Any, group: str, partition: TopicPartition) -> None:
        ownership = self._world.ownership
        others = [one for one in ownership.others(client, partition) if ownership.is_valid(one)]
        if others:
            raise ViolationError(f"{client} committed for {partition} of {group}, which {others[0]} owns")

    def _fetched(self, client: Any, request: OffsetFetchRequest, response: OffsetFetchResponse) -> None:
        before = self._at_fetch.pop(id(request), {})
        for group, partition, offset, code in self._fetched_offsets(request, response):
            if not partition[0] or partition[0] in self._world.transient_topics:
                continue
            if code == ErrorCode.NONE and group not in self.transactional:
                self._check_fetched(group, partition, offset, before.get((group, partition), -1))
            elif code == ErrorCode.NONE and request.require_stable:
                self._check_fetched_transactional(
                    group, partition, offset, before.get((group, partition), -1)
                )

    def _check_fetched(self, group: str, partition: TopicPartition, offset: int, before: int) -> None:
        key = (group, partition)
        possible = {before, self.certain.get(key, -1), *(offset for _, offset in self._begun.get(key, ()))}
        if offset not in possible:
            raise ViolationError(
                f"the committed offset of group {group} in {partition} is {offset}; it can be {sorted(possible)}"
            )
        if offset > self.certain.get(key, -1):
            self.certain[key] = offset  # a commit without a response that took effect

    def _check_fetched_transactional(
        self, group: str, partition: TopicPartition, offset: int, before: int
    ) -> None:
        committed = [
            one.offsets[group, partition]
            for one in self._world.ledger.all_transactions
            if one.wants_commit and (group, partition) in one.offsets
        ]
        if offset != -1 and offset not in committed:
            raise ViolationError(
                f"offset {offset} of group {group} in {partition} was committed by no transaction"
            )
        if offset < before:
            raise ViolationError(
                f"the offset of group {group} in {partition} went back from {before} to {offset}"
            )
        self.certain[group, partition] = max(self.certain.get((group, partition), -1), offset)

    def transaction_committed(self, transaction: Any) -> None:
        """Called when the producer received the response of its commit."""
        for key, offset in transaction.offsets.items():
            self.certain[key] = max(self.certain.get(key, -1), offset)

    def _offsets(self, topics: Iterable[Any]) -> Iterable[tuple[TopicPartition, int]]:
        for topic in topics:
            name = topic.name or self._world.topic_name(topic.topic_id)
            for one in topic.partitions:
                yield (name, one.partition_index), one.committed_offset

    def _fetched_offsets(
        self, request: OffsetFetchRequest, response: OffsetFetchResponse
    ) -> Iterable[tuple[str, TopicPartition, int, int]]:
        groups: Sequence[Any] = response.groups or [response]
        for group in groups:
            group_id = getattr(group, "group_id", None) or request.group_id
            for topic in group.topics:
                name = getattr(topic, "name", "") or self._world.topic_name(topic.topic_id)
                for one in topic.partitions:
                    yield group_id, (name, one.partition_index), one.committed_offset, one.error_code


_UNDECIDED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
"""Errors after which the records may still be in the log."""


class Consumption:
    """The records that each group has processed."""

    def __init__(self) -> None:
        self.done: dict[GroupPartition, set[int]] = {}

    def processed(self, group: str, partition: TopicPartition, records: Sequence[Read]) -> None:
        self.done.setdefault((group, partition), set()).update(one.offset for one in records)


class Visibility:
    """The records that a read_committed consumer has seen in each partition, and whether it may see them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.positions: dict[TopicPartition, int] = {}
        self.seen: dict[TopicPartition, dict[bytes, int]] = {}
        self._sources: dict[bytes, tuple[bytes, int]] = {}

    def forget(self) -> None:
        """The broker was restarted: everything is read again from the beginning."""
        self.positions.clear()
        self.seen.clear()
        self._sources.clear()

    def add_read(self, partition: TopicPartition, records: Sequence[Read], after: int) -> None:
        """Checks records that were read, in the order of their offsets."""
        seen = self.seen.setdefault(partition, {})
        sent = self._world.ledger.sent.get(partition, set())
        for offset, value in records:
            if value not in sent:
                raise ViolationError(f"{value!r} at {offset} of {partition} was never sent there")
            if value in seen:
                raise ViolationError(f"{value!r} is at {seen[value]} and at {offset} of {partition}")
            seen[value] = offset
            transaction = self._world.ledger.transactions.get(value)
            if transaction is not None and not transaction.wants_commit:
                raise ViolationError(
                    f"{value!r} at {offset} of {partition} is visible, but {transaction} is not committed"
                )
            self._check_source(value, offset)
        self.positions[partition] = after

    def _check_source(self, value: bytes, offset: int) -> None:
        source, found, _ = value.partition(b"#")
        if source.rpartition(b"-")[0].decode() in self._world.transient_topics:
            return
        if found and source in self._sources:
            raise ViolationError(
                f"a chain processed {source!r} twice: {self._sources[source]} and {(value, offset)}"
            )
        if found:
            self._sources[source] = (value, offset)

    def check_complete(self) -> None:
        """Every acknowledged or committed record is present; transactions are whole."""
        for partition, values in self._world.ledger.acknowledged.items():
            self._require(partition, values, "was acknowledged")
        for transaction in self._world.ledger.all_transactions:
            if transaction.committed:
                for partition, some in transaction.values.items():
                    self._require(partition, some, f"was committed in {transaction}")
            elif transaction.wants_commit:
                self._check_whole(transaction)

    def _require(self, partition: TopicPartition, values: Iterable[bytes], why: str) -> None:
        if partition[0] in self._world.transient_topics:
            return
        seen = self.seen.get(partition, {})
        for value in sorted(values):
            if value not in seen:
                raise ViolationError(f"{value!r} in {partition} is missing, but {why}")

    def _check_whole(self, transaction: Any) -> None:
        found = {
            value: value in self.seen.get(partition, {})
            for partition, values in transaction.values.items()
            if partition[0] not in self._world.transient_topics
            for value in values
        }
        if len(set(found.values())) > 1:
            raise ViolationError(f"{transaction} is only partly present: {found}")

    def check_chains(self, inputs: Iterable[TopicPartition]) -> None:
        """Every record that a chain had to process has been written to its target topic."""
        for topic, index in inputs:
            for offset in self.seen.get((topic, index), {}).values():
                source = f"{topic}-{index}@{offset}".encode()
                if source not in self._sources:
                    raise ViolationError(f"no chain has processed {source!r}")
