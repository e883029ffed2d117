"""RuntimeDependencies: what the runtime of one coordinator is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from barnabas.broker.coordinator.partition_log import PartitionLogs
from barnabas.broker.coordinator.records import CoordinatorRecord, RecordSerde, RecordTypes
from barnabas.broker.coordinator.runtime_probe import RuntimeProbe
from barnabas.broker.coordinator.shard import CoordinatorShard, ShardContext, random_uuid
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import Timer
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.layout import NO_SEQUENCE

if TYPE_CHECKING:
    from uuid import UUID

S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorLoop(Timer, Protocol):
    """The methods of an event loop that a runtime needs."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RuntimeDependencies(Generic[S]):
    """What all shards of one coordinator share.

    `linger_ms`: how long a batch is filled, -1 for one pass of the loop. `is_needed`: whether a record is written on a
    disk that is full for clients. `base_sequence` is that of batches, which nothing checks: Kafka's group coordinator
    writes 0. `runner` runs loads; times are in ms.
    """

    topic: str
    new_shard: Callable[[ShardContext], S]
    records: InitVar[RecordTypes]
    logs: PartitionLogs
    config: BrokerConfig
    loop: CoordinatorLoop
    runner: BlockingRunner
    now_ms: Callable[[], int]
    image: Callable[[], MetadataImage]
    load_buffer_size: Callable[[], int]
    write_timeout_ms: Callable[[], int]
    linger_ms: Callable[[], int] = lambda: -1
    compression: Callable[[], CompressionType] = lambda: CompressionType.NONE
    is_needed: Callable[[CoordinatorRecord], bool] = lambda _: True
    base_sequence: int = NO_SEQUENCE
    new_uuid: Callable[[], UUID] = random_uuid
    probe: RuntimeProbe = field(default_factory=RuntimeProbe)
    serde: RecordSerde = field(init=False)

    def __post_init__(self, records: RecordTypes) -> None:
        self.serde = RecordSerde(records)
