"""A small disk that fills up, under stock clients: the broker rejects produces, serves fetches, and recovers."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.clients.kafka_python import KafkaProducer
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

DISK_BYTES = 20 << 20
BALLAST_BYTES = 4 << 20
"""The size of the ballast before `fill`. A broker that had no time to write its reserve fills the disk to its limit;
what `SmallDisk.empty` then removes must be more than the eighth above the limit that ends the rejections."""
INODES = 1000
LIMIT_S = 30.0
SETTINGS = {
    "barnabas.http.port": "0",
    "log.segment.bytes": str(1 << 20),
    "barnabas.log.dir.min.free.bytes": str(2 << 20),
    "barnabas.log.dir.space.check.interval.ms": "50",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
}


class SmallDisk:
    """A file system of DISK_BYTES, which the test fills and empties with a file of its own, the ballast."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ballast = path / "ballast"
        self.ballast.write_bytes(bytes(BALLAST_BYTES))
        self._names = path / "names"

    def fill(self) -> None:
        """Fills the disk to the last byte."""
        with self.ballast.open("ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def take_inodes(self) -> None:
        """Uses up all inodes: no file or directory can be created, existing ones can be written."""
        self._names.mkdir()
        with suppress(OSError):
            for number in range(INODES):
                (self._names / str(number)).touch()

    def empty(self) -> None:
        self.ballast.unlink(missing_ok=True)
        shutil.rmtree(self._names, ignore_errors=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},nr_inodes={INODES}", "tmpfs", str(root)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield SmallDisk(root)
    subprocess.run(["umount", "-l", str(root)], check=True)


@pytest.fixture
def broker(disk: SmallDisk) -> Iterator[BrokerProcess]:
    with BrokerProcess(disk.path / "data", SETTINGS) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(LIMIT_S)
        yield process


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


class Outbox:
    """A librdkafka producer that keeps the result of each record."""

    def __init__(self, bootstrap: str, **config: object) -> None:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **dotted})
        self.delivered: list[int] = []
        self.failed: list[KafkaError] = []

    def send(self, value: bytes, topic: str = "t") -> None:
        self.producer.produce(topic, value, on_delivery=self._answered)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            assert offset is not None
            self.delivered.append(offset)
        else:
            self.failed.append(error)

    def fill_disk(self) -> None:
        """Sends until a record is rejected."""
        while not self.failed:
            self.send(bytes(50_000))
            self.producer.flush(LIMIT_S)


def read_all(bootstrap: str) -> list[int]:
    """The offset of each record, by a stock consumer."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=LIMIT_S)
        consumer.assign([TopicPartition("t", 0, low)])
        found: list[int] = []
        while low + len(found) < high:
            message = consumer.poll(LIMIT_S)
            assert message is not None
            assert message.error() is None
            offset = message.offset()
            assert offset is not None
            found.append(offset)
        return found
    finally:
        consumer.close()


def metrics(broker: BrokerProcess, prefix: str) -> float:
    """The sum of the metrics with this prefix."""
    found = re.search(r"http://\S+/metrics", broker.output)
    assert found is not None
    with urllib.request.urlopen(found[0], timeout=LIMIT_S) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))


def metric(broker: BrokerProcess, name: str) -> float:
    return metrics(broker, f"barnabas_log_dir_{name}{{")


def requests(broker: BrokerProcess, api: str) -> float:
    return metrics(broker, f'kafka_network_requestmetrics_requests_total{{request="{api}"')


def test_producers_are_rejected_and_all_other_requests_succeed(
    broker: BrokerProcess, disk: SmallDisk
) -> None:
    outbox = Outbox(broker.bootstrap, message_timeout_ms=1500)
    outbox.fill_disk()
    assert not outbox.failed[0].fatal()
    assert metric(broker, "full") == 1
    assert metric(broker, "refused_batches_total") > 0
    assert metric(broker, "free_bytes") <= metric(broker, "min_free_bytes") == 2 << 20
    assert read_all(broker.bootstrap) == outbox.delivered
    disk.fill()
    assert read_all(broker.bootstrap) == outbox.delivered
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(KafkaException, match="Every log directory is full") as refusal:
        admin.create_topics([NewTopic("u", 1, 1)])["u"].result(LIMIT_S)
    assert refusal.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
    assert broker.output.count("is full:") == 1  # however many requests were rejected
    admin.delete_topics(["t"])["t"].result(LIMIT_S)  # which frees space, and needs some itself
    disk.empty()
    wait_until(lambda: metric(broker, "full") == 0)
    assert broker.output.count("has room again") == 1
    admin.create_topics([NewTopic("u", 1, 1)])["u"].result(LIMIT_S)
    assert broker.stop() == 0, broker.output


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_retrying_producer_succeeds_once_there_is_space(
    broker: BrokerProcess, disk: SmallDisk, idempotent: bool
) -> None:
    outbox = Outbox(broker.bootstrap, message_timeout_ms=60_000, enable_idempotence=idempotent)
    outbox.send(b"first")
    assert outbox.producer.flush(LIMIT_S) == 0
    disk.fill()
    wait_until(lambda: metric(broker, "full") == 1)
    for number in range(5):
        outbox.send(b"%d" % number)
    wait_until(lambda: metric(broker, "refused_batches_total") >= 3)
    assert (outbox.delivered, outbox.failed) == ([0], [])
    before = requests(broker, "Metadata")
    wait_until(lambda: metric(broker, "refused_batches_total") >= 5)
    assert requests(broker, "Metadata") - before <= 1  # no client refreshes its metadata because of it
    disk.empty()
    assert outbox.producer.flush(LIMIT_S) == 0
    assert (outbox.delivered, outbox.failed) == ([0, 1, 2, 3, 4, 5], [])


def test_the_python_clients_see_the_error_and_retry_successfully(
    broker: BrokerProcess, disk: SmallDisk
) -> None:
    disk.fill()
    wait_until(lambda: metric(broker, "full") == 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=50)
    future = producer.send("t", b"kafka-python")
    producer_thread = threading.Thread(target=producer.flush, args=(LIMIT_S,))
    producer_thread.start()
    wait_until(lambda: metric(broker, "refused_batches_total") >= 2)
    assert not future.is_done
    disk.empty()
    producer_thread.join(LIMIT_S)
    assert future.get(LIMIT_S).offset == 0
    producer.close()


async def test_aiokafka_retries(broker: BrokerProcess, disk: SmallDisk) -> None:
    disk.fill()
    wait_until(lambda: metric(broker, "full") == 1)
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    try:
        future = await producer.send("t", b"aiokafka")
        await asyncio.to_thread(wait_until, lambda: metric(broker, "refused_batches_total") >= 2)
        assert not future.done()
        disk.empty()
        assert (await future).offset == 0
    finally:
        await producer.stop()


def test_a_topic_whose_log_cannot_be_created_gets_it_once_there_is_space(
    broker: BrokerProcess, disk: SmallDisk
) -> None:
    offline = "kafka_controller_kafkacontroller_offlinepartitionscount"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    outbox = Outbox(broker.bootstrap, message_timeout_ms=60_000)
    disk.take_inodes()
    admin.create_topics([NewTopic("u", 1, 1)])["u"].result(LIMIT_S)
    assert metrics(broker, offline) == 1
    outbox.send(b"waits for it", "u")
    wait_until(lambda: requests(broker, "Metadata") >= 5)
    assert outbox.producer.flush(0) == 1
    disk.empty()
    assert outbox.producer.flush(LIMIT_S) == 0
    assert outbox.delivered == [0]
    assert metrics(broker, offline) == 0
    assert broker.stop() == 0, broker.output


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_the_broker_starts_on_a_full_disk(broker: BrokerProcess, disk: SmallDisk, clean: bool) -> None:
    outbox = Outbox(broker.bootstrap, message_timeout_ms=1000)
    outbox.fill_disk()
    if clean:
        assert broker.stop() == 0
    else:
        broker.kill()
    disk.fill()
    broker.start()
    assert "is full" in broker.output
    assert read_all(broker.bootstrap) == outbox.delivered
    again = Outbox(broker.bootstrap, message_timeout_ms=60_000)
    again.send(b"when there is room")
    wait_until(lambda: metric(broker, "refused_batches_total") > 0)
    disk.fill()
    broker.kill()  # and once more, with what the last start left
    broker.start()
    assert read_all(broker.bootstrap) == outbox.delivered
    disk.empty()
    assert again.producer.flush(LIMIT_S) == 0
    assert again.delivered == [len(outbox.delivered)]
    assert broker.stop() == 0, broker.output
