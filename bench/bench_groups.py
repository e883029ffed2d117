"""Groups and transactions beside Apache Kafka: until a consumer has a record, commits, transactions, memory of groups.

The brokers take turns, one at a time, each in a new directory. Consumers and producers are librdkafka's; commits and a
thousand groups are sent in our own codec over few connections, so that the broker sets the pace.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs do not export it

from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from bench import results
from bench.brokers import Broker, Factory, barnabas, cpu_s, fresh, rss_mib
from bench.section import Section, Table, number
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.support.apache_kafka import ApacheKafka

TOPIC: Final = "measured"
STARTS: Final = 5
COMMITS: Final = 20_000
IN_FLIGHT: Final = 100
GROUPS: Final = 1_000
SECONDS: Final = 6.0
VALUE: Final = bytes(200)
LIMIT_S: Final = 60.0
Figures = dict[str, float]
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0"}


def brokers(*, with_kafka: bool) -> dict[str, Factory]:
    """Barnabas with either profile, Apache Kafka with its defaults and without the delay that profile dev leaves
    out."""

    def ours(profile: str) -> Factory:
        def make(directory: Path) -> Broker:
            broker = barnabas(directory)
            broker.overrides["barnabas.profile"] = profile
            if profile == "kafka":
                for key in ("offsets.topic", "transaction.state.log"):
                    broker.overrides[f"{key}.replication.factor"] = "1"
                broker.overrides["transaction.state.log.min.isr"] = "1"
            return broker

        return make

    found: dict[str, Factory] = {"Barnabas (dev)": ours("dev"), "Barnabas (kafka)": ours("kafka")}
    if with_kafka:
        try:
            jars = classpath()
        except KafkaMissingError as error:
            print(f"Apache Kafka is not measured: {error}")
        else:
            found[f"Kafka {KAFKA_VERSION}"] = lambda directory: ApacheKafka(directory, jars)
            found["Kafka, no delay"] = lambda directory: ApacheKafka(directory, jars, AT_ONCE)
    return found


# -- from subscribe to the first record --


def first_record_s(broker: Broker, group: str, protocol: str) -> float:
    """Seconds from subscribe() to the first record, of a consumer that is connected."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.list_topics(TOPIC, timeout=LIMIT_S)
        began = time.perf_counter()
        consumer.subscribe([TOPIC])
        while time.perf_counter() - began < LIMIT_S:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                return time.perf_counter() - began
        raise TimeoutError("no record")
    finally:
        consumer.close()


def first_records(broker: Broker) -> Figures:
    """The first group of a new broker, which creates the internal topic, and the median of later ones."""
    found = {}
    for protocol in ("classic", "consumer"):
        found[f"first_{protocol}_s"] = first_record_s(broker, f"first-{protocol}", protocol)
        more = [first_record_s(broker, f"{protocol}-{index}", protocol) for index in range(STARTS)]
        found[f"later_{protocol}_s"] = statistics.median(more)
    return found


# -- commits --


def _connection(broker: Broker) -> BrokerConnection:
    host, _, port = broker.bootstrap.rpartition(":")
    return BrokerConnection(host, int(port))


def _commit(group: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def commits_per_s(broker: Broker, in_flight: int, count: int) -> float:
    """Commits of one partition each, `in_flight` at a time, of so many groups as are in flight."""
    requests = [_commit(f"committing-{index}", 1) for index in range(in_flight)]
    with _connection(broker) as connection:
        for request in requests:
            _await_coordinator(connection, request.group_id)
        began = time.perf_counter()
        for _ in range(count // in_flight):
            # All in one write: separate ones would wait for acknowledgements of those before.
            connection.send_all(requests, 8)
            for request in requests:
                answer = connection.receive(request, 8)
                assert isinstance(answer, OffsetCommitResponse)
                assert answer.topics[0].partitions[0].error_code == 0, answer
        return count / (time.perf_counter() - began)


def _await_coordinator(connection: BrokerConnection, group: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = connection.request(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
        assert isinstance(found, FindCoordinatorResponse)
        answer = connection.request(_commit(group, 0), 8)
        assert isinstance(answer, OffsetCommitResponse)
        if answer.topics[0].partitions[0].error_code == 0:
            return
        time.sleep(0.05)
    raise TimeoutError(group)


def commits(broker: Broker, count: int) -> Figures:
    """Rates, and the broker's processor time for each."""
    found = {}
    for name, in_flight in (("one", 1), ("many", IN_FLIGHT)):
        requests = count if in_flight > 1 else count // 5
        used = cpu_s(broker)
        found[f"commits_{name}"] = commits_per_s(broker, in_flight, requests)
        found[f"commits_{name}_us"] = (cpu_s(broker) - used) / requests * 1e6
    return found


# -- transactions --


def producer(broker: Broker, identity: str | None) -> Producer:
    """A transactional producer, or an idempotent one."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": broker.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "log_level": 0,
    }
    if identity is not None:
        settings["transactional.id"] = identity
    made = Producer(settings)
    if identity is not None:
        made.init_transactions(LIMIT_S)
    return made


def records_per_s(broker: Broker, every_s: float | None, seconds: float) -> tuple[float, float]:
    """Records a second of one producer that commits so often (None: it has no transactions), and commits a second."""
    made = producer(broker, None if every_s is None else f"every-{every_s}")
    began = time.perf_counter()
    count = commits = 0
    while time.perf_counter() - began < seconds:
        if every_s is not None:
            made.begin_transaction()
        ends = time.perf_counter() + (every_s or seconds)
        while time.perf_counter() < ends:
            for _ in range(100):
                _produce(made)
            count += 100
        if every_s is not None:
            made.commit_transaction(LIMIT_S)
            commits += 1
    made.flush(LIMIT_S)
    took = time.perf_counter() - began
    return count / took, commits / took


def _produce(made: Producer) -> None:
    while True:
        try:
            made.produce(TOPIC, VALUE)
        except BufferError:
            made.poll(0.005)
        else:
            return


def small_per_s(broker: Broker, seconds: float) -> float:
    """Transactions of one record, one after the other."""
    made = producer(broker, "small")
    began = time.perf_counter()
    count = 0
    while time.perf_counter() - began < seconds:
        made.begin_transaction()
        made.produce(TOPIC, VALUE)
        made.commit_transaction(LIMIT_S)
        count += 1
    return count / (time.perf_counter() - began)


def transactions(broker: Broker, seconds: float) -> Figures:
    """Without transactions, with a commit every 100 ms and every second, and as many as possible."""
    found = {"plain": records_per_s(broker, None, seconds)[0], "small": small_per_s(broker, seconds)}
    for name, every_s in (("tenth", 0.1), ("second", 1.0)):
        found[f"{name}_records"], found[f"{name}_commits"] = records_per_s(broker, every_s, seconds)
    return found


# -- memory --


def join_classic(connection: BrokerConnection, group: str) -> None:
    """A group with one member, and an offset."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(30))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = connection.request(request, 3)
    assert isinstance(joined, JoinGroupResponse)
    assert joined.error_code == 0, joined
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(30))
    request_sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assignment],
    )
    synced = connection.request(request_sync, 2)
    assert isinstance(synced, SyncGroupResponse)
    assert synced.error_code == 0, synced


def join_consumer(connection: BrokerConnection, group: str) -> None:
    """The same with KIP-848."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"member-{group}",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    answer = connection.request(request, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == 0, answer


def memory(broker: Broker, groups: int) -> Figures:
    """Memory before, and with a thousand groups of either kind. The initial delay of classic groups is off."""
    kinds: list[tuple[str, Callable[[BrokerConnection, str], None]]] = [
        ("consumer", join_consumer),
        ("classic", join_classic),
    ]
    found = {"mib": rss_mib(broker)}
    with _connection(broker) as connection:
        for kind, join in kinds:
            for index in range(groups):
                join(connection, f"{kind}-held-{index}")
            time.sleep(1)
            found[f"{kind}_mib"] = rss_mib(broker)
    return found


@contextmanager
def running(factory: Factory) -> Iterator[Broker]:
    """A running broker with the topic, which has a record."""
    with fresh(factory) as broker:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])[TOPIC].result(LIMIT_S)
        made = producer(broker, None)
        made.produce(TOPIC, VALUE)
        made.flush(LIMIT_S)
        yield broker


LINES: Final[Mapping[str, tuple[str, ...]]] = {
    "from subscribe to the first record, classic: first group of a new broker, later ones, s": (
        "first_classic_s",
        "later_classic_s",
    ),
    "the same, consumer protocol (KIP-848), s": ("first_consumer_s", "later_consumer_s"),
    "commits of offsets a second, one at a time": ("commits_one",),
    f"commits of offsets a second, {IN_FLIGHT} in flight": ("commits_many",),
    "processor time of the broker for one of those, us": ("commits_many_us",),
    f"memory; with {GROUPS:,} groups of the consumer protocol; and as many classic ones, MiB": (
        "mib",
        "consumer_mib",
        "classic_mib",
    ),
    "records a second without transactions": ("plain",),
    "records a second and transactions a second, a commit every 100 ms": ("tenth_records", "tenth_commits"),
    "records a second and transactions a second, a commit every second": ("second_records", "second_commits"),
    "transactions of one record a second, one producer": ("small",),
}
"""Each line of the table, and which figures stand in it."""


def report(found: Mapping[str, Figures]) -> Section:
    """The section of the document."""
    rows = [
        [line, *(", ".join(number(figures.get(name)) for name in names) for figures in found.values())]
        for line, names in LINES.items()
    ]
    return Section(
        name="groups",
        title="Groups and transactions",
        prose=[
            "Consumers and producers are librdkafka's; commits and the thousand groups are sent over few "
            "connections in "
            "our own codec. The brokers in turns, one at a time, Kafka with a heap of 512 MiB. Profile dev, "
            "like Kafka "
            "without delay, does not wait for more members of a new group."
        ],
        tables=[Table(["", *found], rows)],
        figures={
            f"{who}, {name}": value for who, figures in found.items() for name, value in figures.items()
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    options = results.arguments(__doc__).parse_args(argv)
    count, groups, seconds = (500, 20, 1.0) if options.quick else (COMMITS, GROUPS, SECONDS)
    found = {}
    for name, factory in brokers(with_kafka=not options.no_kafka).items():
        with running(factory) as broker:
            figures = first_records(broker) | commits(broker, count)
            # With an initial delay a thousand groups would measure only that delay.
            if name in {"Barnabas (dev)", "Kafka, no delay"}:
                figures |= memory(broker, groups) | transactions(broker, seconds)
        found[name] = figures
    results.publish(report(found), options)


if __name__ == "__main__":
    main()
