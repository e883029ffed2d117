"""The common part of consumers of both protocols: finds the offsets of owned partitions, reads, commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetFetchRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.wire import Uuid
from tests.simulation.network import DisconnectedError
from tests.simulation.node import COORDINATOR_ERRORS, GROUP, Node, RetryError, TopicPartition
from tests.simulation.reading import Read, read

if TYPE_CHECKING:
    from tests.simulation.world import World

READ_COMMITTED: Final = 1
_Partition = OffsetCommitRequest.OffsetCommitRequestPartition


class FencedError(Exception):
    """The group does not have this member, or has it in another epoch."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = code


FENCED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
RETRIABLE: Final = COORDINATOR_ERRORS | {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class Consumer(Node):
    """Owns partitions of `group` and reads them. Subclasses implement the assignment."""

    def __init__(
        self, world: World, name: str, group: str, topics: Sequence[str], instance_id: str | None = None
    ) -> None:
        super().__init__(world, name)
        self.group = group
        self.subscribed = list(topics)
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = -1
        self.owned: dict[TopicPartition, int | None] = {}  # the position, None while unknown
        self.known_topics: dict[str, tuple[Uuid, int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.leaving = False
        self.commit_interval_s = self.rng.choice((0.5, 2.0, 5.0))
        self._commits_at = 0.0
        self._refreshes_at = 0.0

    def died(self) -> None:
        self.release(self.owned, lost=True)

    def freeze(self, seconds: float) -> None:
        super().freeze(seconds)
        self._commits_at = (
            0.0  # after a pause it commits first, even if its partitions have other owners by then
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        """Changes the subscription to these topics."""
        if list(topics) != self.subscribed:
            self.say("subscribes to", list(topics))
            self.subscribed = list(topics)
            self._refreshes_at = 0.0

    # -- ownership: assigned and not revoked --

    def claim(self, partitions: Iterable[TopicPartition]) -> None:
        new = [partition for partition in partitions if partition not in self.owned]
        if new:
            self.say("claims", new)
        for partition in new:
            self.owned[partition] = None
            self.world.ownership.claim(self, partition)

    def release(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        if partitions:
            self.say("loses" if lost else "releases", list(partitions))
        for partition in list(partitions):
            self.owned.pop(partition, None)
            self.committed.pop(partition, None)
            self.world.ownership.release(self, partition)

    # -- topics --

    async def refresh_topics(self) -> bool:
        """Fetches the partition counts of its topics; returns whether they have changed."""
        wanted = {*self.subscribed, *(topic for topic, _ in self.owned)}
        found = await self.topics(sorted(wanted))
        changed = found != self.known_topics
        for partition, position in self.owned.items():
            if (
                position
                and found.get(partition[0], (b"",))[0] != self.known_topics.get(partition[0], (b"",))[0]
            ):
                self.owned[partition] = None  # another topic of the same name
        self.known_topics = found
        self._refreshes_at = self.world.clock.now + 3.0
        return changed

    async def maybe_refresh_topics(self) -> bool:
        if self.world.clock.now < self._refreshes_at:
            return False
        return await self.refresh_topics()

    def topic_id(self, topic: str) -> Uuid:
        return self.known_topics[topic][0]

    def named(self, topic_id: Uuid) -> str | None:
        """The name of a subscribed topic by its id."""
        return next((name for name, (known, _) in self.known_topics.items() if known == topic_id), None)

    # -- offsets --

    async def find_positions(self) -> None:
        """Fetches the committed offsets of the partitions whose position is unknown."""
        missing = [
            one for one, position in self.owned.items() if position is None and one[0] in self.known_topics
        ]
        if not missing:
            return
        await self.find_coordinator(self.group, GROUP)
        for partition, offset in (await self.fetch_offsets(missing)).items():
            if self.owned.get(partition, 0) is None:
                self.owned[partition] = max(offset, 0)
                self.committed[partition] = max(offset, 0)

    async def fetch_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Their committed offsets, -1 where absent. Raises RetryError, FencedError, DisconnectedError."""
        by_topic = grouped(partitions)
        version = self.version(ApiKey.OFFSET_FETCH)
        if version < 8:
            answer = await self.ask(self._old_offset_fetch(by_topic))
            code, topics = answer.error_code, answer.topics
        else:
            answer = await self.ask(self._offset_fetch(by_topic, with_ids=version >= 10))
            code, topics = answer.groups[0].error_code, answer.groups[0].topics
        self.check(code)
        found = {}
        for topic in topics:
            name = topic.name if version < 10 else self.named(topic.topic_id)
            for one in topic.partitions:
                self.check(one.error_code)
                if name is not None:
                    found[name, one.partition_index] = one.committed_offset
        return found

    def _old_offset_fetch(self, by_topic: Mapping[str, list[int]]) -> OffsetFetchRequest:
        return OffsetFetchRequest(
            group_id=self.group,
            topics=[
                OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic.items()
            ],
            require_stable=self.version(ApiKey.OFFSET_FETCH) >= 7,
        )

    def _offset_fetch(self, by_topic: Mapping[str, list[int]], *, with_ids: bool) -> OffsetFetchRequest:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name="" if with_ids else name,
                topic_id=self.topic_id(name) if with_ids else bytes(16),
                partition_indexes=indexes,
            )
            for name, indexes in by_topic.items()
        ]
        member_id, epoch = self.fetching_member()
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self.group, member_id=member_id, member_epoch=epoch, topics=topics
        )
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def fetching_member(self) -> tuple[str | None, int]:
        """Its identity in offset fetches: absent, unless the protocol requires it."""
        return None, -1

    async def commit(self) -> None:
        """Commits the positions. Raises RetryError, FencedError, DisconnectedError."""
        if not self.owned:
            return
        await self.find_coordinator(self.group, GROUP)
        offsets = {
            partition: position
            for partition, position in self.owned.items()
            if position is not None
            and position != self.committed.get(partition)
            and partition[0] in self.known_topics
        }
        if not offsets:
            return
        request = self.offset_commit(offsets)
        answer = await self.ask(request)
        codes = [one.error_code for topic in answer.topics for one in topic.partitions]
        for code in codes:
            self.check(code)
        for partition, offset in offsets.items():
            if partition in self.owned:
                self.committed[partition] = offset

    def offset_commit(self, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
        with_ids = self.version(ApiKey.OFFSET_COMMIT) >= 10
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name="" if with_ids else name,
                topic_id=self.topic_id(name) if with_ids else bytes(16),
                partitions=[
                    _Partition(
                        partition_index=index, committed_offset=offsets[name, index], committed_metadata=""
                    )
                    for index in indexes
                ],
            )
            for name, indexes in grouped(offsets).items()
        ]
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id if self.version(ApiKey.OFFSET_COMMIT) >= 7 else None,
            topics=topics,
        )

    def check(self, code: int) -> None:
        """Raises RetryError or FencedError by the error code, AssertionError for an unexpected one."""
        if code == ErrorCode.NONE:
            return
        if code in COORDINATOR_ERRORS:
            self.forget_coordinator()
        if code in RETRIABLE:
            raise RetryError(ErrorCode(code).name)
        if code in FENCED:
            raise FencedError(code)
        raise AssertionError(f"{self} was answered {ErrorCode(code).name}")

    # -- reading --

    async def poll(self) -> None:
        """Fetches once from its partitions, then sleeps."""
        await self.find_positions()
        readable = [one for one, position in self.owned.items() if position is not None]
        if not readable:
            await self.sleep(0.4)
            return
        wanted = {one: self.owned[one] or 0 for one in readable if one[0] in self.known_topics}
        answer = await self.ask(self._fetch(wanted), "data")
        for topic in answer.responses:
            name = topic.topic or self.named(topic.topic_id)
            for data in topic.partitions:
                partition = (str(name), data.partition_index)
                if data.error_code == ErrorCode.NONE:
                    if partition in self.owned and self.owned[partition] == wanted.get(partition):
                        await self._process_data(partition, wanted[partition], data)
                else:
                    self._refreshes_at = 0.0
                    if (
                        data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                        and name in self.world.transient_topics
                    ):
                        self.owned[partition] = 0  # auto.offset.reset
        await self.sleep(self.world.pace_s * (0.5 + self.rng.random()))

    async def _process_data(self, partition: TopicPartition, position: int, data: Any) -> None:
        records, after = read(data.records, position, data.aborted_transactions)
        if after == position or not await self.process(partition, records, after):
            return
        if self.owned.get(partition, -1) == position:  # else the partition was lost meanwhile
            self.owned[partition] = after

    async def process(self, partition: TopicPartition, records: Sequence[Read], after: int) -> bool:
        """Processes the records; returns whether that succeeded."""
        self.world.consumption.processed(self.group, partition, records)
        return True

    def _fetch(self, positions: Mapping[TopicPartition, int]) -> FetchRequest:
        with_ids = self.version(ApiKey.FETCH) >= 13
        topics = [
            FetchRequest.FetchTopic(
                topic="" if with_ids else name,
                topic_id=self.topic_id(name) if with_ids else bytes(16),
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=index, fetch_offset=positions[name, index], partition_max_bytes=2000
                    )
                    for index in indexes
                ],
            )
            for name, indexes in grouped(positions).items()
        ]
        return FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=20_000, isolation_level=READ_COMMITTED, topics=topics
        )

    async def commit_now_and_then(self) -> None:
        """Commits as enable.auto.commit does."""
        if self.world.clock.now >= self._commits_at:
            self._commits_at = self.world.clock.now + self.commit_interval_s
            await self.commit()

    async def commit_before_revocation(self) -> None:
        """Commits a last time; a fenced member continues as if the commit had succeeded."""
        with suppress(FencedError):
            await self.last_commit()

    async def last_commit(self) -> None:
        """Commits with a few retries: the next owner reads again what is not committed. Raises FencedError."""
        for _ in range(3):
            try:
                await self.commit()
            except (RetryError, DisconnectedError):
                await self.sleep(0.1)
            else:
                return


def grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found
