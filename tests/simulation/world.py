"""The world of one simulation: time, the machine, the network, the clients, and the state of all checks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final

from barnabas.broker.coordinator.transaction.state import TransactionState
from barnabas.broker.request import ConnectionInfo
from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.commits import OffsetFetchRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.simulation.checks import Commits, Consumption, Ownership, ViolationError, Visibility
from tests.simulation.clock import Clock
from tests.simulation.compaction import CompactionSettings
from tests.simulation.ledger import Ledger
from tests.simulation.machine import Machine
from tests.simulation.network import Network, Weather, send
from tests.simulation.node import Node, TopicPartition
from tests.simulation.reading import read

TRACE_LENGTH: Final = 100_000
AUDIT_INTERVAL_S: Final = 1.5
ENDS_WITHIN_MS: Final = 5000
"""The time in which a transaction has to end after its timeout, the broker's start, or the decision to end it."""

SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "num.recovery.threads.per.data.dir": "1",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "2000",
    "log.flush.scheduler.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "barnabas.log.dir.space.check.interval.ms": "1000",
    "log.index.size.max.bytes": "4096",
}

INTERNAL_TOPICS: Final = {
    "__consumer_offsets": "offsets.topic.num.partitions",
    "__transaction_state": "transaction.state.log.num.partitions",
}
"""The key with the partition count of each."""

EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class World:
    """The whole state of a simulation. `seed` determines all of it."""

    def __init__(
        self,
        seed: int,
        settings: Mapping[str, str],
        *,
        pace_s: float = 0.4,
        compaction: CompactionSettings | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.pace_s = pace_s
        self.clock = Clock()
        self._compaction = compaction
        self._settings = {**SETTINGS, **settings, **(compaction.broker if compaction else {})}
        self.machine = Machine(self.clock, seed, self._settings, compacts=compaction is not None)
        self.machine.on_end = self._broker_ended
        self.machine.on_start = self._broker_started
        self.weather = Weather(Random(f"{seed}/weather"))
        self.network = Network(self.clock, self.machine, self.weather, self)
        self.ownership = Ownership(self)
        self.commits = Commits(self)
        self.consumption = Consumption()
        self.ledger = Ledger()
        self.visibility = Visibility(self)
        self.transactional_ids: set[str] = set()
        self.nodes: list[Node] = []
        self.steps = 0
        self.lines: deque[tuple[Any, ...]] = deque(maxlen=TRACE_LENGTH)
        self.audited_topics: list[str] = []
        self.transient_topics: set[str] = set()
        self._names: dict[Uuid, str] = {}
        self._chain_values = 0
        self._started_ms = 0
        self._info = ConnectionInfo(
            connection_id=0,
            listener_name="PLAINTEXT",
            client_host="192.0.2.9",
            client_port=1,
            local_host="192.0.2.1",
            local_port=9092,
        )

    # -- time --

    def step(self) -> bool:
        """Runs the next event and checks the invariants. False: nothing is scheduled any more."""
        call = self.clock.next()
        if call is None:
            return False
        self.steps += 1
        call.callback()
        self.ownership.check()
        return True

    def run_until(self, when: float) -> None:
        """Steps until a time."""
        reached = False

        def reach() -> None:
            nonlocal reached
            reached = True

        self.clock.call_at(when, reach)
        while not reached:
            self.step()

    # -- clients --

    def add(self, node: Node) -> Node:
        self.nodes.append(node)
        self.trace(node.name, "begins")
        node.start()
        return node

    def chain_values(self, node: Node, sources: list[bytes]) -> list[bytes]:
        """The output of a chain for each of its inputs, distinct from earlier ones."""
        self._chain_values += 1
        return [source + f"#{node.name}.{self._chain_values}".encode() for source in sources]

    # -- the trace --

    def trace(self, *what: Any) -> None:
        """Adds a line to the trace, formatted only on demand."""
        self.lines.append((self.clock.now, *what))

    def executed(self, client: Any, request: Message, version: int) -> None:
        self.trace("broker begins", client, type(request).__name__)
        self.commits.executed(client, request)

    def answered(self, client: Any, request: Message, version: int, response: Message) -> None:
        self.trace("broker answers", client, response)
        self.commits.answered(client, request, response)

    def _broker_ended(self) -> None:
        self.trace("the broker has ended")
        self.network.broker_ended()

    def _broker_started(self) -> None:
        self.trace("the broker has started")
        self.visibility.forget()
        self._started_ms = self.clock.now_ms

    # -- requests to the broker, without the network --

    def ask_broker(self, request: Message, version: int) -> Any:
        """Returns the broker's immediate response; None if it is pending or the broker is down."""
        broker, process = self.machine.running, self.machine.process
        if broker is None or process is None:
            return None
        assert request.api_key is not None
        key = ApiKey(request.api_key)
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=1, client_id="auditor"
        )
        frame = encode(header, request_header_version(key, version)) + encode(request, version)
        answers: list[Message] = []
        process.run(
            lambda: send(
                broker.apis,
                self._info,
                key,
                version,
                frame,
                on_response=answers.append,
                on_close=lambda: None,
            )
        )
        return answers[0] if answers else None

    def topic_name(self, topic_id: Uuid) -> str:
        """A topic's name by its id, of deleted topics too; "" for an unknown id."""
        if topic_id not in self._names and self.machine.running is not None:
            for topic in self.machine.running.broker.image.topics.values():
                self._names[topic.topic_id] = topic.name
        return self._names.get(topic_id, "")

    def partition_count(self, topic: str) -> int:
        """The partition count; 0 without the topic or the broker."""
        if self.machine.running is None:
            return 0
        found = self.machine.running.broker.image.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def members(self, group: str) -> set[str] | None:
        """The ids of a group's members at the coordinator; None where it is not available."""
        shard = self._shard_of(group)
        if shard is None:
            return None
        found = shard.groups.find(group)
        return set() if found is None else set(found.members)

    def generation(self, group: str) -> int | None:
        """A classic group's generation; None for a group of another kind."""
        shard = self._shard_of(group)
        found = None if shard is None else shard.groups.find(group)
        return getattr(found, "generation_id", None)

    def group_state(self, group: str) -> str | None:
        shard = self._shard_of(group)
        found = None if shard is None else shard.groups.find(group)
        return None if found is None else str(found.state_name)

    def _shard_of(self, group: str) -> Any:
        if self.machine.running is None:
            return None
        for shard in self.machine.running.coordinators.group_runtime.shards():
            if shard.groups.find(group) is not None:
                return shard
        return None

    # -- the auditor --

    def audit(self) -> None:
        """Reads the new records of every partition, as a read_committed consumer does."""
        if self.machine.running is None:
            return
        with self.machine.spared():
            for topic in self.audited_topics:
                for index in range(self.partition_count(topic)):
                    self._read_new((topic, index))

    def _read_new(self, partition: TopicPartition) -> None:
        while True:
            position = self.visibility.positions.get(partition, 0)
            data = self.read_at(partition, position)
            if data is None or data.error_code != ErrorCode.NONE:
                return
            records, after = read(data.records, position, data.aborted_transactions)
            if after == position:
                return
            self.visibility.add_read(partition, records, after)
            if after >= data.last_stable_offset:
                return

    def read_at(self, partition: TopicPartition, position: int) -> Any:
        """A read_committed fetch from one partition."""
        wanted = FetchRequest.FetchPartition(
            partition=partition[1], fetch_offset=position, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[FetchRequest.FetchTopic(topic=partition[0], partitions=[wanted])],
        )
        answer = self.ask_broker(request, 12)
        return None if answer is None else answer.responses[0].partitions[0]

    def committed_offset(self, group: str, partition: TopicPartition) -> int:
        """The committed offset at the coordinator, -1 if absent."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=partition[0], partition_indexes=[partition[1]]
        )
        group_request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topic])
        answer = self.ask_broker(OffsetFetchRequest(groups=[group_request], require_stable=True), 8)
        if answer is None or answer.groups[0].error_code != ErrorCode.NONE:
            return -1
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

    # -- transactions --

    def check_transactions(self) -> None:
        """Every transaction ends within its timeout, unless the broker is down, or could not write it."""
        broker = self.machine.running
        if broker is None or self.machine.is_disk_full:
            return
        now = self.clock.now_ms
        could_write_ms = max(self._started_ms, self.machine.space_noticed_ms)
        for shard in broker.coordinators.transaction_runtime.shards():
            for metadata in shard.transactions.values():
                since = metadata.last_update_timestamp_ms
                if metadata.state is TransactionState.ONGOING:
                    since = metadata.start_timestamp_ms + metadata.timeout_ms
                elif not metadata.is_ending:
                    continue
                if now > max(since, could_write_ms) + ENDS_WITHIN_MS:
                    raise ViolationError(
                        f"{metadata.transactional_id} is still {metadata.state.name}: {metadata}"
                    )

    # -- topics --

    def create_internal_topics(self) -> None:
        """Creates the coordinators' topics at the start, if they are to be compacted."""
        if self._compaction is not None:
            for name, count in INTERNAL_TOPICS.items():
                self.create_topic(name, int(self._settings[count]), self._compaction.topics)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] = EMPTY) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in configs.items()
            ],
        )
        self.ask_broker(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)

    def delete_topic(self, name: str) -> None:
        self.ask_broker(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)

    def lasting(self, topics: Sequence[str]) -> list[str]:
        """The topics that exist from beginning to end."""
        return [topic for topic in topics if topic not in self.transient_topics]

    def add_partitions(self, name: str, partitions: int) -> None:
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        self.ask_broker(CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 3)
