"""Groups and transactions beside Apache Kafka: until a consumer has a record, commits, transactions, memory of groups.

The brokers take turns, one at a time, each in a new directory. Consumers and producers are librdkafka's; commits and
a thousand groups are sent in our own codec over few connections, so that it is the broker that is measured.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs do not export it

from bench.brokers import Broker, Factory, barnabas, cpu_s, fresh, rss_mib
from protocol.messages.commits import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.conformance.peer import Peer
from tests.support.apache_kafka import ApacheKafka

TOPIC: Final = "measured"
STARTS: Final = 5
COMMITS: Final = 20_000
IN_FLIGHT: Final = 100
GROUPS: Final = 1_000
SECONDS: Final = 6.0
VALUE: Final = bytes(200)
LIMIT_S: Final = 60.0
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0"}


def brokers(*, with_kafka: bool) -> dict[str, Factory]:
    """Barnabas with either profile, Apache Kafka as it is and without the delay that profile dev leaves out."""

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


def report_first_records(broker: Broker) -> None:
    """The very first group of a new broker, whose internal topic is made for it, and the median of more."""
    for protocol in ("classic", "consumer"):
        first = first_record_s(broker, f"first-{protocol}", protocol)
        more = [first_record_s(broker, f"{protocol}-{number}", protocol) for number in range(STARTS)]
        print(
            f"  first record, {protocol:<9} first group {first:7.3f} s, then {statistics.median(more):7.3f} s"
        )


# -- commits --


def _peer(broker: Broker) -> Peer:
    host, _, port = broker.bootstrap.rpartition(":")
    return Peer(host, int(port))


def _commit(group: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def commits_per_s(broker: Broker, in_flight: int) -> float:
    """Commits of one partition each, `in_flight` at a time, of so many groups as are in flight."""
    count = COMMITS if in_flight > 1 else COMMITS // 5
    requests = [_commit(f"committing-{number}", 1) for number in range(in_flight)]
    with _peer(broker) as peer:
        for request in requests:
            _await_coordinator(peer, request.group_id)
        began = time.perf_counter()
        for _ in range(count // in_flight):
            # All in one write: what is sent in pieces waits for acknowledgements of the pieces before.
            peer.say_all(requests, 8)
            for request in requests:
                answer = peer.hear(request, 8)
                assert isinstance(answer, OffsetCommitResponse)
                assert answer.topics[0].partitions[0].error_code == 0, answer
        return count / (time.perf_counter() - began)


def _await_coordinator(peer: Peer, group: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = peer.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
        assert isinstance(found, FindCoordinatorResponse)
        answer = peer.ask(_commit(group, 0), 8)
        assert isinstance(answer, OffsetCommitResponse)
        if answer.topics[0].partitions[0].error_code == 0:
            return
        time.sleep(0.05)
    raise TimeoutError(group)


def report_commits(broker: Broker) -> None:
    """Rates, and the broker's processor time for each."""
    for in_flight in (1, IN_FLIGHT):
        used = cpu_s(broker)
        rate = commits_per_s(broker, in_flight)
        count = COMMITS if in_flight > 1 else COMMITS // 5
        each_us = (cpu_s(broker) - used) / count * 1e6
        print(
            f"  commits, {in_flight:>3} in flight {rate:>8.0f}/s, broker {each_us:6.0f} us each", flush=True
        )


# -- transactions --


def producer(broker: Broker, identity: str | None) -> Producer:
    """Transactional, or idempotent only."""
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


def records_per_s(broker: Broker, every_s: float | None) -> tuple[float, float]:
    """Records a second of one producer that commits so often (None: it has no transactions), and commits a second."""
    made = producer(broker, None if every_s is None else f"every-{every_s}")
    began = time.perf_counter()
    count = commits = 0
    while time.perf_counter() - began < SECONDS:
        if every_s is not None:
            made.begin_transaction()
        ends = time.perf_counter() + (every_s or SECONDS)
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


def small_per_s(broker: Broker) -> float:
    """Transactions of one record, one after the other."""
    made = producer(broker, "small")
    began = time.perf_counter()
    count = 0
    while time.perf_counter() - began < SECONDS:
        made.begin_transaction()
        made.produce(TOPIC, VALUE)
        made.commit_transaction(LIMIT_S)
        count += 1
    return count / (time.perf_counter() - began)


def report_transactions(broker: Broker) -> None:
    """Without any, with a commit every 100 ms and every second, and as many as can be."""
    plain, _ = records_per_s(broker, None)
    print(f"  no transactions        {plain:>9.0f} records/s")
    for every_s in (0.1, 1.0):
        rate, commits = records_per_s(broker, every_s)
        print(f"  a commit every {every_s:>4g} s   {rate:>9.0f} records/s, {commits:5.2f} transactions/s")
    print(f"  of one record          {small_per_s(broker):>9.0f} transactions/s", flush=True)


# -- memory --


def join_classic(peer: Peer, group: str) -> None:
    """A group with one member, and an offset."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(30))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = peer.ask(request, 3)
    assert isinstance(joined, JoinGroupResponse)
    assert joined.error_code == 0, joined
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(30))
    request_sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assignment],
    )
    synced = peer.ask(request_sync, 2)
    assert isinstance(synced, SyncGroupResponse)
    assert synced.error_code == 0, synced


def join_consumer(peer: Peer, group: str) -> None:
    """The same with KIP-848."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"member-{group}",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    answer = peer.ask(request, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == 0, answer


def report_memory(broker: Broker) -> None:
    """Before, and with a thousand groups of either kind. The classic ones wait out no delay: it is off."""
    kinds: list[tuple[str, Callable[[Peer, str], None]]] = [
        ("consumer", join_consumer),
        ("classic", join_classic),
    ]
    before = rss_mib(broker)
    print(f"  memory                 {before:>9.1f} MiB")
    with _peer(broker) as peer:
        for kind, join in kinds:
            began = time.perf_counter()
            for number in range(GROUPS):
                join(peer, f"{kind}-held-{number}")
            took = time.perf_counter() - began
            time.sleep(1)
            print(
                f"  + {GROUPS} {kind:<9} groups {rss_mib(broker):>9.1f} MiB, made in {took:.1f} s", flush=True
            )


@contextmanager
def running(factory: Factory) -> Iterator[Broker]:
    """With the topic, which has a record."""
    with fresh(factory) as broker:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])[TOPIC].result(LIMIT_S)
        made = producer(broker, None)
        made.produce(TOPIC, VALUE)
        made.flush(LIMIT_S)
        yield broker


def main(argv: list[str] | None = None) -> None:
    """Runs it alone: `python -m bench.bench_groups`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args(argv)
    for name, factory in brokers(with_kafka=not options.no_kafka).items():
        print(f"-- {name}", flush=True)
        with running(factory) as broker:
            report_first_records(broker)
            report_commits(broker)
            # Where a first member is waited with, a thousand groups would only tell how long.
            if name in {"Barnabas (dev)", "Kafka, no delay"}:
                report_memory(broker)
                report_transactions(broker)


if __name__ == "__main__":
    main()
