"""Apache Kafka's DumpLogSegments reads every file of our log directory without a complaint."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conformance.kafka_jars import require_classpath
from tests.interop.clients.aio import Aiokafka
from tests.interop.clients.base import StockClient
from tests.interop.clients.confluent import AdminClient, ConfluentKafka, NewTopic
from tests.interop.workload import CODECS
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

TOOL = "org.apache.kafka.tools.DumpLogSegments"
KINDS = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot")
COMPLAINT = re.compile(
    r"isvalid: false|mismatch|non-consecutive|non-continuous|out of order|corrupt|not found|could not|exception|error",
    re.IGNORECASE,
)
# The tool starts at offset -1, and so prints this for every segment but a partition's first, Apache Kafka's included.
FIRST_OFFSET = re.compile(r"^Non-consecutive offsets in \S+\n  -1 is followed by \d+\n(?!  )", re.MULTILINE)
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "512"}
TOPICS = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "small-segments": SMALL,
    "broker-time": {"message.timestamp.type": "LogAppendTime", **SMALL},
    "compacted": {"cleanup.policy": "compact", **SMALL},
    "recompressed": {"compression.type": "zstd", **SMALL},
}
PARTITIONS = 2


def work(broker: BrokerProcess) -> None:
    """Writes with two clients and every codec, rolls, kills and stops the broker."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(new).values():
        future.result(30)
    clients: tuple[StockClient, ...] = (ConfluentKafka(), Aiokafka())
    for client in clients:
        for number, name in enumerate(TOPICS):
            if name != "compacted":
                workload = client.workload(3000, PARTITIONS)
                client.produce(broker.bootstrap, name, workload, CODECS[number % len(CODECS)])
    write_keyed(broker.bootstrap, "compacted", 3000)
    broker.kill()
    broker.start()
    write_keyed(broker.bootstrap, "small-segments", 3000)
    # Time indexes must cope with timestamps that are not in order.
    write_keyed(broker.bootstrap, "codec-none", 5000, step_ms=-7)
    assert broker.stop() == 0


def write_keyed(bootstrap: str, topic: str, count: int, step_ms: int = 1) -> None:
    """Writes records with keys, and values of half a kilobyte, in small batches."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 20}
    )
    now_ms = int(time.time() * 1000)
    for number in range(count):
        when_ms = now_ms - 3_600_000 + number * step_ms
        producer.produce(
            topic, b"%d" % number * 100, b"key-%d" % (number % 50), number % PARTITIONS, timestamp=when_ms
        )
    assert producer.flush(60) == 0


def dump(files: list[Path]) -> str:
    """The tool's output for all files, with the records in compressed batches, from one JVM."""
    names = ",".join(map(str, files))
    command = ["java", "-Xmx512m", "-cp", require_classpath(), TOOL, "--deep-iteration", "--files", names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    # The tool reports mismatches of indexes on stderr.
    return done.stdout + done.stderr


def complaints(text: str) -> list[str]:
    """The lines that report damage."""
    return [line for line in FIRST_OFFSET.sub("", text).splitlines() if COMPLAINT.search(line)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker after work and a clean shutdown."""
    require_classpath()
    directory = tmp_path_factory.mktemp("dump") / "data"
    with BrokerProcess(directory) as broker:
        work(broker)
    return directory


def test_kafkas_tool_reads_every_file_without_complaint(data: Path) -> None:
    for kind in KINDS:
        files = sorted(data.glob(f"*-[0-9]*/{kind}"))
        if kind != "*.txnindex":
            assert files, kind
        if not files:
            continue
        text = dump(files)
        assert complaints(text) == []
        assert text.count("Dumping ") == len(files)
        if kind == "*.log":
            assert len(files) > len(TOPICS) * PARTITIONS, "nothing was rolled"
            assert text.count("isvalid: true") > 300


def test_kafkas_tool_reports_damage(data: Path, tmp_path: Path) -> None:
    """The test above can fail: on a flipped byte in a batch, and on an index entry that misses its batch."""
    log = max((data / "small-segments-0").glob("*.log"), key=lambda path: path.stat().st_size)
    index = log.with_suffix(".index")
    (tmp_path / "small-segments-0").mkdir()
    copies = [tmp_path / "small-segments-0" / path.name for path in (log, index)]
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    copies[0].write_bytes(content)
    assert complaints(dump(copies[:1]))
    copies[0].write_bytes(log.read_bytes())
    entries = bytearray(index.read_bytes())
    entries[3] ^= 1
    copies[1].write_bytes(entries)
    assert complaints(dump(copies[1:]))
