"""A reader with fetch sessions, for the tests of the FetchManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.context import FetchContext
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.partition import FetchPartition
from barnabas.broker.fetch.session import INITIAL_EPOCH, NO_SESSION
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import ZERO_UUID

WITHOUT_IDS, WITH_IDS = 12, 13
IDS = {"a": b"a" * 16, "b": b"b" * 16, "c": b"c" * 16}


class Clock:
    """Wall time in milliseconds, moved by the test."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


class Reader:
    """The requests of a test to a FetchManager; the test also sets the result of each partition."""

    def __init__(self, slots: int = 10, max_partitions: int = 1000) -> None:
        self.clock = Clock()
        self.cache = FetchSessionCache(slots, _counting(), max_partitions)
        self.manager = FetchManager(self.cache, self.clock)
        self.names = {topic_id: name for name, topic_id in IDS.items()}

    def context(
        self,
        session_id: int = NO_SESSION,
        epoch: int = INITIAL_EPOCH,
        wanted: Sequence[tuple[str, int]] = (),
        forgotten: Sequence[tuple[str, int]] = (),
        *,
        offset: int = 0,
        version: int = WITHOUT_IDS,
        is_follower: bool = False,
    ) -> FetchContext:
        request = FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchRequest.FetchTopic(
                    topic=name if version < WITH_IDS else "",
                    topic_id=IDS.get(name, b"?" * 16) if version >= WITH_IDS else ZERO_UUID,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=100
                        )
                    ],
                )
                for name, index in wanted
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic=name if version < WITH_IDS else "",
                    topic_id=IDS.get(name, b"?" * 16) if version >= WITH_IDS else ZERO_UUID,
                    partitions=[index],
                )
                for name, index in forgotten
            ],
        )
        return self.manager.context(request, version, self.names.get, is_follower=is_follower)

    def begin(self, *wanted: tuple[str, int], **options: int) -> int:
        """The id of a new session over `wanted`, whose reader has received an empty result for each."""
        version = options.get("version", WITHOUT_IDS)
        context = self.context(wanted=wanted, version=version, is_follower=bool(options.get("is_follower")))
        return context.response([nothing(partition) for partition in context.partitions]).session_id


def _counting() -> Callable[[], int]:
    numbers = iter(range(1, 1_000_000))
    return lambda: next(numbers)


def nothing(
    partition: FetchPartition, high_watermark: int = 0, log_start_offset: int = 0, records: bytes = b""
) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=partition.index,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def error(partition: FetchPartition) -> FetchResponse.PartitionData:
    data = nothing(partition, -1, -1)
    data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return data


def told(response: FetchResponse) -> list[tuple[str, int]]:
    return [(topic.topic, data.partition_index) for topic in response.responses for data in topic.partitions]


def keys(context: FetchContext) -> list[tuple[str | None, int]]:
    return [(partition.topic, partition.index) for partition in context.partitions]
