"""The audit of the log directories of Apache Kafka and Barnabas, during writes, retention and compaction, and after."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.pipeline.audit.audit import AuditResult, audit
from barnabas.pipeline.audit.engines import LocalEngine
from barnabas.pipeline.audit.plan import AuditOptions
from barnabas.storage.env import RealEnv
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]
OVERRIDES = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.flush.interval.messages": "500",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}
TOPICS = {
    "kept": {},
    "retained": {"retention.bytes": "300000"},
    "compacted": {"cleanup.policy": "compact"},
    "mixed": {"cleanup.policy": "compact,delete", "retention.bytes": "2000000"},
}
SMALL = {"segment.bytes": "1048576", "segment.ms": "700", "index.interval.bytes": "1000"}
SECONDS = 12.0


@pytest.fixture(params=["kafka", "barnabas"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApacheKafka | BrokerProcess]:
    if request.param == "kafka":
        with ApacheKafka(tmp_path, require_classpath(), OVERRIDES) as kafka:
            yield kafka
    else:
        with BrokerProcess(tmp_path / "data", OVERRIDES) as barnabas:
            yield barnabas


def audited(directory: Path) -> AuditResult:
    options = AuditOptions(is_deep=True, counts_keys=True, now_ms=time.time_ns() // 1_000_000)
    return audit(RealEnv(), [str(directory)], options, LocalEngine(RealEnv()))


def findings_of(result: AuditResult, *severities: str) -> list[Any]:
    return [row for row in result.findings if row["severity"] in severities]


def write(bootstrap: str, stop: threading.Event, failures: list[BaseException]) -> None:
    """Writes with short-lived idempotent and transactional producers until `stop` is set."""
    try:
        number = 0
        while not stop.is_set():
            settings: dict[str, Any] = {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "batch.num.messages": 40,
                "log_level": 0,
            }
            codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
            plain = Producer({**settings, "enable.idempotence": True, "compression.type": codec})
            transactional = Producer({**settings, "transactional.id": f"t-{number % 2}"})
            transactional.init_transactions(30)
            for round_number in range(4):
                transactional.begin_transaction()
                for each in range(200):
                    for topic in TOPICS:
                        key = b"k%d" % (each % 37)
                        (plain if each % 3 else transactional).produce(topic, b"v" * 300, key)
                plain.flush(30)
                # An abort that removes records from librdkafka's queue leaves a gap in its sequences.
                transactional.flush(30)
                if round_number % 2:
                    transactional.abort_transaction(30)
                else:
                    transactional.commit_transaction(30)
            number += 1
    except BaseException as error:
        failures.append(error)


def test_audit_finds_no_errors_while_a_broker_writes(broker: ApacheKafka | BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [NewTopic(name, 2, 1, config={**SMALL, **settings}) for name, settings in TOPICS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(30)
    stop, failures = threading.Event(), list[BaseException]()
    writer = threading.Thread(target=write, args=(broker.bootstrap, stop, failures))
    writer.start()
    audits, until = 0, time.monotonic() + SECONDS
    try:
        while time.monotonic() < until or audits < 3:
            result = audited(broker.data_dir)
            assert findings_of(result, "error") == [], f"audit {audits}"
            audits += 1
    finally:
        stop.set()
        writer.join(60)
    assert failures == []
    visible = ends(broker.bootstrap)
    broker.stop()
    after = audited(broker.data_dir)
    assert findings_of(after, "error", "warning") == []
    found = {(row["topic"], row["partition"]): row["end_offset"] for row in after.partitions}
    # The broker writes the markers of the last transactions after it has answered EndTxn.
    assert all(end <= found[place] <= end + 2 for place, end in visible.items()), (visible, found)
    topics = {row["topic"] for row in after.partitions}
    assert {*TOPICS, "__transaction_state"} <= topics
    assert sum(row["aborted_records"] for row in after.partitions if row["topic"] == "kept") > 0
    assert all(row["distinct_keys"] <= 37 for row in after.partitions if row["topic"] in TOPICS)


def ends(bootstrap: str) -> dict[tuple[str, int], int]:
    """The end offset of each partition that a consumer sees."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "nobody", "isolation.level": "read_uncommitted"}
    )
    try:
        return {
            (topic, partition): consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[
                1
            ]
            for topic in TOPICS
            for partition in range(2)
        }
    finally:
        consumer.close()
