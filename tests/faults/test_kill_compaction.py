"""kill -9 during continuous compaction: no key loses its last value, no temporary file remains."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_dump_log import KINDS, complaints, dump
from tests.faults.conftest import assert_no_traceback
from tests.faults.keyed_ledger import KeyedWriter, Place, read_all
from tests.interop.clients.confluent import NewTopic
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.chance import seed_or

pytestmark = [pytest.mark.faults, pytest.mark.clients]

KILLS = int(os.environ.get("BARNABAS_KILLS", "15"))
"""How often the longer test kills; 200 and more for a thorough run."""

PARTITIONS = 2
KEYS = 40
CODECS = ("none", "lz4", "zstd")
PROGRESS_LIMIT_S = 60.0
COMPACTED = "compacted "
"""The beginning of the log line about a compaction."""

# Tiny segments and no pause, so that there is a compaction at almost every instant.
SMALL = {
    "internal.segment.bytes": "60000",
    "index.interval.bytes": "512",
    "segment.index.bytes": "8192",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "200",
}
TOPICS = {
    "compacted": {"cleanup.policy": "compact", **SMALL},
    "tombstones-go": {"cleanup.policy": "compact", "delete.retention.ms": "50", **SMALL},
    "both": {"cleanup.policy": "compact,delete", "delete.retention.ms": "50", **SMALL},
}
BROKER = {
    "log.cleaner.backoff.ms": "10",
    "log.cleaner.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}


@pytest.mark.timeout(240)
def test_two_kills(tmp_path: Path) -> None:
    kill_and_read(BrokerProcess(tmp_path / "data", BROKER), rounds=2, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
def test_many_kills_in_a_row(tmp_path: Path) -> None:
    kill_and_read(BrokerProcess(tmp_path / "data", BROKER), rounds=KILLS, seed=seed_or(50))


@pytest.mark.conformance
@pytest.mark.timeout(300)
def test_apache_kafka_reads_the_files_after_a_kill(tmp_path: Path) -> None:
    """Runs its DumpLogSegments over every file; ignores the gaps between offsets, which compaction makes."""
    require_classpath()
    broker = BrokerProcess(tmp_path / "data", BROKER)
    kill_and_read(broker, rounds=3, seed=4)
    for kind in KINDS:
        files = sorted(broker.data_dir.glob(f"*-[0-9]*/{kind}"))
        if files:
            assert not [line for line in complaints(dump(files)) if not line.startswith("Non-consecutive")]


def kill_and_read(broker: BrokerProcess, rounds: int, seed: int) -> None:
    """Runs the experiment; the seed decides when it kills, and is printed."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    with broker:
        create_topics(broker.bootstrap)
        writers = [
            KeyedWriter(broker.bootstrap, number, codec, places(b"writer %d" % number))
            for number, codec in enumerate(CODECS)
        ]
        for writer in writers:
            writer.start()
        compactions = 0
        for number in range(rounds):
            wait_for_progress(broker, writers, dice.randrange(1, 8000))
            wait_for_compactions(broker, dice.randrange(0, 4))
            time.sleep(dice.uniform(0.0, 0.1))
            broker.kill()
            assert_no_traceback(broker)
            compactions += broker.output.count(COMPACTED)
            if number % 5 == 4:
                broker.spawn()
                time.sleep(dice.uniform(0.0, 0.5))
                broker.kill()
            broker.start()
            reading = read_all(broker.bootstrap, writers, list(TOPICS), PARTITIONS)
            reading.check()
            print(f"kill {number + 1}: {reading.records} records there", flush=True)
        for writer in writers:
            writer.finish()
        read_all(broker.bootstrap, writers, list(TOPICS), PARTITIONS).check_that_all_is_over()
        nothing_is_left(broker.data_dir)
        assert_no_traceback(broker)
        assert broker.stop() == broker.clean_status
    records = sum(writer.count for writer in writers)
    print(f"{rounds} kills, {records} changes acknowledged, {compactions} compactions in the broker's log")
    assert compactions >= rounds, "too few compactions for the kills to have met any"
    assert not leftovers(broker.data_dir)
    verify(broker.data_dir)


def verify(data_dir: Path) -> None:
    """Checks every file: checksums, offsets, indexes, snapshots."""
    command = [sys.executable, "-m", "barnabas.cli.main", "log", "verify", str(data_dir)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def places(writer: bytes) -> list[Place]:
    """Keys of one writer's own, in every partition."""
    return [
        (topic, partition, b"%b key %d" % (writer, key))
        for topic in TOPICS
        for partition in range(PARTITIONS)
        for key in range(KEYS)
    ]


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(30)


def wait_for_progress(broker: BrokerProcess, writers: list[KeyedWriter], count: int) -> None:
    """Returns once `count` more changes were acknowledged."""
    deadline = time.monotonic() + PROGRESS_LIMIT_S
    wanted = sum(writer.count for writer in writers) + count
    while sum(writer.count for writer in writers) < wanted:
        assert time.monotonic() < deadline, f"no progress in {PROGRESS_LIMIT_S:g} s:\n{broker.output[-4000:]}"
        for writer in writers:
            assert not writer.failures, f"{writer.name}: {writer.failures[:3]}"
        time.sleep(0.001)


def wait_for_compactions(broker: BrokerProcess, count: int) -> None:
    """Returns once the running broker has logged so many compactions."""
    deadline = time.monotonic() + PROGRESS_LIMIT_S
    while broker.output.count(COMPACTED) < count:
        assert time.monotonic() < deadline, (
            f"no compaction in {PROGRESS_LIMIT_S:g} s:\n{broker.output[-4000:]}"
        )
        time.sleep(0.001)


def leftovers(data_dir: Path) -> list[Path]:
    return [path for path in data_dir.glob("*/*") if path.suffix in (".cleaned", ".swap")]


def nothing_is_left(data_dir: Path) -> None:
    """Waits until compaction has nothing left to do; then no temporary file of it remains."""
    deadline = time.monotonic() + PROGRESS_LIMIT_S
    while leftovers(data_dir):
        assert time.monotonic() < deadline, leftovers(data_dir)
        time.sleep(0.05)
