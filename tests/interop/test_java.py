"""Apache Kafka's own Java clients and command-line tools at their defaults: idempotent, acks=all, fetch sessions."""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.storage.log.validator import UNPACKED_BYTES_FLOOR
from tests.conformance.kafka_jars import require_classpath, require_compiled
from tests.interop.clients.confluent import AdminClient, ConfluentKafka
from tests.interop.clients.java import SOURCE, JavaClients
from tests.interop.clients.lines import LineClientError
from tests.interop.conftest import TopicFactory
from tests.interop.workload import CODECS, assert_same

pytestmark = [pytest.mark.clients, pytest.mark.conformance, pytest.mark.timeout(900)]

TOTAL_RECORDS = int(os.environ.get("BARNABAS_TEST_RECORDS", "1000000"))
FULL = tuple((codec, partitions) for codec in CODECS for partitions in (1, 200))
TOOL_LIMIT_S = 300
JAVA = ["java", "-XX:TieredStopAtLevel=1"]


@pytest.fixture(scope="module")
def java(bootstrap: str) -> Iterator[JavaClients]:
    clients = JavaClients(bootstrap, require_compiled(SOURCE))
    yield clients
    clients.close()


@pytest.mark.parametrize(("codec", "partitions"), FULL)
def test_a_million_records_come_back(
    java: JavaClients, topic: TopicFactory, codec: str, partitions: int
) -> None:
    name, count = topic(partitions), TOTAL_RECORDS // len(FULL)
    produced = java.produce(name, partitions, count, codec)
    assert produced.count == count
    assert_same(produced, java.consume(name, partitions, count))


@pytest.mark.parametrize("codec", CODECS)
def test_java_and_librdkafka_read_each_other(
    java: JavaClients, bootstrap: str, topic: TopicFactory, codec: str
) -> None:
    other, count = ConfluentKafka(), 3000
    name = topic(3)
    assert_same(java.produce(name, 3, count, codec), other.consume(bootstrap, name, 3, count))
    name = topic(3)
    assert_same(other.produce(bootstrap, name, other.workload(count, 3), codec), java.consume(name, 3, count))


def test_a_recreated_topic_is_written_and_read_at_once(
    java: JavaClients, admin: AdminClient, topic: TopicFactory
) -> None:
    name, count = topic(3), 3000
    for _ in range(3):
        assert_same(java.produce(name, 3, count, "none"), java.consume(name, 3, count))
        admin.delete_topics([name])[name].result(TOOL_LIMIT_S)
        java.create(name, 3)


def test_the_admin_client_creates_a_topic_once(java: JavaClients) -> None:
    name = f"interop-{uuid.uuid4().hex[:12]}"
    java.create(name, 3)
    with pytest.raises(LineClientError, match="TopicExistsException"):
        java.create(name, 3)


def tool(name: str, *words: str, text: str = "", heap: str = "512m") -> str:
    """Runs one of Kafka's command-line tools; returns its output."""
    command = [*JAVA, f"-Xmx{heap}", "-cp", require_classpath(), name, *words]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TOOL_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_the_console_tools_write_and_read_lines(bootstrap: str, topic: TopicFactory, codec: str) -> None:
    """Headers, keys and values, some of them null; a million lines over all codecs, and one value of a megabyte."""
    name, count = topic(), TOTAL_RECORDS // len(CODECS)
    lines = [f"trace:{number:x},b:\tkey-{number % 1000}\tthe value of {number}" for number in range(count)]
    lines[1::7] = [f"trace:1\tNULL\tno key {number}" for number in range(1, count, 7)]
    lines[2::7] = [f"trace:2\tkey-{number}\tNULL" for number in range(2, count, 7)]
    lines[3] = "trace:3\tbig\t" + "0123456789" * 100_000
    properties = {"parse.headers": "true", "parse.key": "true", "null.marker": "NULL"}
    printing = {"print.headers": "true", "print.key": "true", "null.literal": "NULL"}
    tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", bootstrap, "--topic", name, "--compression-codec", codec),
        *(word for key, value in properties.items() for word in ("--reader-property", f"{key}={value}")),
        text="".join(line + "\n" for line in lines),
    )
    printed = tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", name, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(lines))),
        *(word for key, value in printing.items() for word in ("--formatter-property", f"{key}={value}")),
    )
    read = printed.splitlines()
    assert len(read) == len(lines)
    assert read == lines, next(pair for pair in zip(read, lines, strict=True) if pair[0] != pair[1])


def test_the_performance_tool_gets_every_record_acknowledged(bootstrap: str, topic: TopicFactory) -> None:
    name, count = topic(3), TOTAL_RECORDS // 5
    printed = tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", name, "--num-records", str(count)),
        *("--record-size", "100", "--throughput", "-1"),
    )
    assert f"{count} records sent" in printed.splitlines()[-1], printed
    offsets = tool("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", name)
    assert sum(int(line.rpartition(":")[2]) for line in offsets.splitlines()) == count


@pytest.mark.skipif("BARNABAS_TEST_BOOTSTRAP" in os.environ, reason="Apache Kafka accepts such a batch")
def test_a_batch_that_decompresses_to_too_much_is_split(
    bootstrap: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """No record of the batch is lost."""
    name, payload = topic(), tmp_path / "payload"
    payload.write_bytes(b"x" * (UNPACKED_BYTES_FLOOR // 128))
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.type": "zstd",
        "batch.size": str(80_000_000),
        "buffer.memory": str(200_000_000),
        "linger.ms": "5000",
    }
    printed = tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", name, "--num-records", "140", "--throughput", "-1", "--payload-file", str(payload)),
        *("--print-metrics", "--command-property"),
        *(f"{key}={value}" for key, value in settings.items()),
        heap="1500m",
    )
    assert "140 records sent" in printed, printed
    assert re.search(r"batch-split-total\S* *: [1-9]", printed), printed
    offsets = tool("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", name)
    assert offsets.split() == [f"{name}:0:140"]


def test_the_topic_tool_creates_describes_lists_and_deletes(bootstrap: str) -> None:
    name = f"interop-{uuid.uuid4().hex[:12]}"

    def topics(*words: str) -> str:
        return tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, *words)

    topics("--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000")
    described = topics("--describe", "--topic", name)
    assert re.search(
        r"PartitionCount:\s*3\s+ReplicationFactor:\s*1\s+Configs:.*retention\.ms=60000", described
    )
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 3
    assert name in topics("--list").split()
    topics("--delete", "--topic", name)
    assert name not in topics("--list").split()


def test_the_config_tool_describes_a_topic(bootstrap: str, topic: TopicFactory) -> None:
    name = topic(1, retention_ms="60000")
    words = ["--bootstrap-server", bootstrap, "--describe", "--entity-type", "topics", "--entity-name", name]
    assert "retention.ms=60000" in tool("kafka.admin.ConfigCommand", *words)
    printed = tool("kafka.admin.ConfigCommand", *words, "--all")
    assert "max.message.bytes=1048588" in printed


def test_the_api_versions_tool_reads_every_range(bootstrap: str) -> None:
    printed = tool("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)
    assert re.search(r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", printed)
    assert "Fetch(1)" in printed
