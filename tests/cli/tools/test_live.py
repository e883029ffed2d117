"""Both tools while a busy broker works on the same files: they never report false damage.

BARNABAS_LIVE_LOOKS: how often each looks (by default 6 times).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from barnabas.cli.main import main
from barnabas.storage.verify.verifier import REMOVED
from tests.conformance.kafka_jars import require_classpath
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(300)]

LOOKS = int(os.environ.get("BARNABAS_LIVE_LOOKS", "6"))
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "512", "file.delete.delay.ms": "100"}
TOPICS = {
    "short": {**SMALL, "retention.bytes": "2097152"},
    "compacted": {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "plain": {**SMALL, "retention.bytes": "8388608"},
}
BUSY = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


@contextmanager
def load(bootstrap: str, directory: Path) -> Iterator[None]:
    """Producers that write, roll and have records deleted and compacted until the end of the block."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(new).values():
        future.result(30)
    is_over = threading.Event()

    def write(codec: str) -> None:
        settings = {"compression.type": codec, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        rng = Random(codec)
        while not is_over.is_set():
            for topic in TOPICS:
                key = b"k%d" % rng.randrange(200)
                producer.produce(topic, rng.randbytes(400) * 2, key, rng.randrange(2))
            producer.poll(0)
            if len(producer) > 1000:
                producer.flush(30)
        producer.flush(30)

    threads = [threading.Thread(target=write, args=(codec,)) for codec in ("none", "zstd")]
    for thread in threads:
        thread.start()
    try:
        while not all(list(directory.glob(f"{topic}-1/*.log")) for topic in TOPICS):
            time.sleep(0.05)
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def look(directory: Path, *, was_killed: bool = False) -> None:
    """Verifies everything and dumps every log once. A deletion interrupted by a kill is not damage."""
    verified = CliRunner().invoke(main, ["log", "verify", str(directory), "--json", "--quiet"])
    *findings, summary = map(json.loads, verified.stdout.splitlines())
    if was_killed:
        findings = [found for found in findings if found["remedy"] != REMOVED]
    assert findings == [], "\n".join(map(str, findings))
    assert verified.exit_code == 0
    assert summary["partitions"] >= 2 * len(TOPICS)
    for partition in sorted(directory.glob("[cps]*-0")):
        dumped = CliRunner().invoke(main, ["dump-log", str(partition)])
        missing = [line for line in dumped.stderr.splitlines() if "No such file" not in line]
        assert missing == [], "only what retention has taken may be missing"
        assert "isvalid: false" not in dumped.stdout


def test_no_damage_is_reported_of_a_busy_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", BUSY) as broker:
        with load(broker.bootstrap, broker.data_dir):
            for _ in range(LOOKS):
                look(broker.data_dir)
        broker.kill()
        look(broker.data_dir, was_killed=True)
        broker.start()
        assert broker.stop() == 0
    look(tmp_path / "data")


@pytest.mark.conformance
def test_no_damage_is_reported_of_a_busy_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path, require_classpath(), BUSY) as kafka:
        with load(kafka.bootstrap, kafka.data_dir):
            for _ in range(LOOKS // 2):
                look(kafka.data_dir)
        kafka.kill()
        look(kafka.data_dir, was_killed=True)
        kafka.start()
        kafka.stop()
        look(kafka.data_dir)
