"""What the tests of the fetchers have in common: followed logs over a disk in memory, and a leader that is the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable
from barnabas.broker.pending import Pending
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.fetcher.fetcher import FetcherConfig
from barnabas.broker.replica.fetcher.ports import FollowedLog
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner
from barnabas.config.log_config import LogConfig
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from barnabas.storage.env import make_directory
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import (
    EpochEndOffset,
    LogAppendInfo,
    LogStartOffsetIncrementReason,
    TopicPartition,
)
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import make_batch, small_config

LEADER = NodeAddress("leader.test", 9092)
NODE_ID = 1
LEADER_ID = 2
BACKOFF_MS = 1000
SESSION_ID = 77


def topic_id(topic: str) -> Uuid:
    """An id for each topic name."""
    return topic.encode().ljust(16, b"-")


def batch(offset: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch as a leader has it in its log."""
    return make_batch(*(values or (b"x",)), base_offset=offset, epoch=epoch)


class Follower:
    """A FollowedLog over a real log."""

    def __init__(self, manager: LogManager, log: UnifiedLog, runner: BlockingRunner) -> None:
        self._manager = manager
        self._runner = runner
        self.log = log
        self.is_truncating = False
        self.topic_id: Uuid = log.topic_id or topic_id(log.topic)

    @property
    def key(self) -> TopicPartition:
        return self.log.topic, self.log.partition

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def latest_epoch(self) -> int:
        return self.log.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        return self.log.end_offset_for_epoch(epoch)

    def append_as_follower(self, records: bytes | memoryview, leader_epoch: int) -> LogAppendInfo:
        assert not self.is_truncating
        return self.log.append_as_follower(records, leader_epoch)

    def update_follower_high_watermark(self, high_watermark: int) -> bool:
        before = self.log.high_watermark
        return high_watermark > before and self.log.update_high_watermark(high_watermark) > before

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        return self.log.maybe_increment_log_start_offset(
            offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED
        )

    def truncate_to(self, offset: int) -> Pending[Exception | None]:
        return self._truncate(lambda: self._manager.truncate_to(self.log, offset))

    def truncate_fully_and_start_at(self, offset: int) -> Pending[Exception | None]:
        return self._truncate(lambda: self._manager.truncate_fully_and_start_at(self.log, offset))

    def _truncate(self, work: Any) -> Pending[Exception | None]:
        pending: Pending[Exception | None] = Pending()
        assert not self.is_truncating
        self.is_truncating = True
        result: list[Exception] = []

        def guarded() -> None:
            try:
                work()
            except Exception as error:
                result.append(error)

        def done(error: BaseException | None) -> None:
            self.is_truncating = False
            assert error is None
            pending.complete(result[0] if result else None)

        self._runner.submit(guarded, done)
        return pending


class Disk:
    """A log directory in memory, with followed logs."""

    def __init__(self, config: LogConfig | None = None, runner: BlockingRunner | None = None) -> None:
        self.env = FaultEnv()
        make_directory(self.env, "/logs")
        effective = config or small_config(retention_ms=-1)
        self.manager = LogManager(self.env, ["/logs"], lambda _topic: effective)
        self.manager.dirs.lock()
        self.manager.load_logs()
        self.runner = runner or InlineRunner()

    def follower(self, topic: str = "t", partition: int = 0) -> Follower:
        log = self.manager.get_or_create_log(topic, partition, topic_id(topic))
        return Follower(self.manager, log, self.runner)


class LeaderChannel:
    """A NodeChannel whose other end is the test: it holds what was sent, and the test answers it."""

    def __init__(self) -> None:
        self.sent: list[tuple[Message, int | None, Pending[Message | NodeClientError]]] = []
        self.closed = False

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        assert not self.closed
        assert version is not None
        encode(request, version)  # raises where a field is set that the version has not
        pending: Pending[Message | NodeClientError] = Pending()
        self.sent.append((request, version, pending))
        return pending

    def close(self) -> None:
        self.closed = True
        for _, _, pending in self.sent:
            if not pending.done:
                pending.complete(NodeUnavailable("closed"))


class Leader:
    """The leader: its connections, and its answers."""

    def __init__(self) -> None:
        self.channels: list[LeaderChannel] = []
        self.addresses: list[NodeAddress] = []
        self.session_id = SESSION_ID

    def connect(self, address: NodeAddress) -> LeaderChannel:
        self.addresses.append(address)
        self.channels.append(LeaderChannel())
        return self.channels[-1]

    @property
    def waiting(self) -> list[tuple[Message, int | None, Pending[Message | NodeClientError]]]:
        return [sent for channel in self.channels for sent in channel.sent if not sent[2].done]

    def _only(self) -> tuple[Any, int | None, Pending[Message | NodeClientError]]:
        assert len(self.waiting) == 1, f"{len(self.waiting)} requests are in flight"
        return self.waiting[0]

    @property
    def fetch(self) -> FetchRequest:
        """The Fetch request that waits for an answer."""
        request = self._only()[0]
        assert isinstance(request, FetchRequest)
        return request

    @property
    def version(self) -> int | None:
        return self._only()[1]

    @property
    def list_offsets(self) -> ListOffsetsRequest:
        request = self._only()[0]
        assert isinstance(request, ListOffsetsRequest)
        return request

    def answer(self, *partitions: tuple[str, FetchResponse.PartitionData], error: int = 0) -> None:
        """Answers the fetch with the data of (topic, data)."""
        self.reply(
            FetchResponse(
                session_id=self.session_id,
                error_code=error,
                responses=[
                    FetchResponse.FetchableTopicResponse(
                        topic=topic, topic_id=topic_id(topic), partitions=[data]
                    )
                    for topic, data in partitions
                ],
            )
        )

    def answer_offset(self, offset: int, error: int = 0, topic: str = "t", partition: int = 0) -> None:
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=partition, error_code=error, offset=offset
        )
        self.reply(
            ListOffsetsResponse(
                topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name=topic, partitions=[part])]
            )
        )

    def reply(self, response: Message | NodeClientError) -> None:
        self._only()[2].complete(response)


def data(
    records: bytes = b"",
    *,
    partition: int = 0,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    error: int = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
) -> FetchResponse.PartitionData:
    """What a leader answers for a partition."""
    answer = FetchResponse.PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        records=memoryview(records),
    )
    if diverging is not None:
        answer.diverging_epoch = FetchResponse.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return answer


class Events:
    """FollowerEvents that are written down."""

    def __init__(self) -> None:
        self.appended: list[tuple[TopicPartition, int]] = []
        self.moved: list[TopicPartition] = []
        self.failed: list[tuple[TopicPartition, Exception]] = []

    def follower_appended(self, log: FollowedLog, info: LogAppendInfo, size: int) -> None:
        self.appended.append((log.key, size))

    def follower_offsets_moved(self, log: FollowedLog) -> None:
        self.moved.append(log.key)

    def follower_failed(self, log: FollowedLog, error: Exception) -> None:
        self.failed.append((log.key, error))


class Quota:
    """A FollowerQuota that the test sets."""

    def __init__(self) -> None:
        self.throttled: set[TopicPartition] = set()
        self.recorded = 0
        self.delay = 0.0

    def is_throttled(self, key: TopicPartition) -> bool:
        return key in self.throttled

    def record(self, size: int) -> None:
        self.recorded += size

    def delay_s(self) -> float:
        return self.delay


def config(**changed: Any) -> FetcherConfig:
    """Kafka's defaults; metadata.version 4.3-IV0."""
    values: dict[str, Any] = {
        "node_id": NODE_ID,
        "wait_max_ms": 500,
        "min_bytes": 1,
        "partition_max_bytes": 1 << 20,
        "response_max_bytes": 10 << 20,
        "backoff_ms": BACKOFF_MS,
        "request_timeout_ms": 30_000,
        "metadata_version": lambda: 30,
        "broker_epoch": lambda: 55,
    }
    return FetcherConfig(**{**values, **changed})


def initial(offset: int, *, leader_id: int = LEADER_ID, epoch: int = 0) -> InitialFetchState:
    return InitialFetchState(leader_id, LEADER, epoch, offset)


def asked(request: FetchRequest) -> list[tuple[str, int, int, int, int]]:
    """(topic, partition, fetch offset, leader epoch, last fetched epoch) of a request."""
    return [
        (topic.topic, one.partition, one.fetch_offset, one.current_leader_epoch, one.last_fetched_epoch)
        for topic in request.topics
        for one in topic.partitions
    ]


def forgotten(request: FetchRequest) -> list[tuple[str, Sequence[int]]]:
    return [(topic.topic, topic.partitions) for topic in request.forgotten_topics_data]
