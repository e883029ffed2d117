"""The worker process of a running broker: started on demand, ended with the broker, and harmless when it dies."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from barnabas.storage.worker import NICENESS
from tests.faults.conftest import assert_no_traceback
from tests.interop.clients.confluent import NewTopic
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.faults,
    pytest.mark.clients,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

LIMIT_S = 30.0
MOST_NICE = 19
SLOW = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.io.max.bytes.per.second": "20000",
    "log.cleaner.dedupe.buffer.size": str(2 << 20),
}
"""A compaction of half a megabyte takes about a minute."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SLOW) as process:
        yield process
        assert_no_traceback(process)


def workers(pid: int) -> list[int]:
    """The child processes of a process."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def produce(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 20_000})
    for number in range(count):
        producer.produce("t", bytes(500), b"key %d" % (number % 10))
    assert producer.flush(LIMIT_S) == 0


def compacting(broker: BrokerProcess) -> int:
    """Has the broker compact for a while; returns the process id of the worker."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"cleanup.policy": "compact", "internal.segment.bytes": "100000"}
    admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(LIMIT_S)
    assert workers(broker.pid) == [], "nothing to do, nobody there"
    produce(broker.bootstrap, 1200)
    until(lambda: bool(workers(broker.pid)))
    (worker,) = workers(broker.pid)
    until(lambda: b"barnabas.storage.worker" in Path(f"/proc/{worker}/cmdline").read_bytes())
    return worker


def files(broker: BrokerProcess, suffix: str) -> list[Path]:
    return list(broker.data_dir.glob(f"t-0/*{suffix}"))


def opened_by(pid: int) -> set[str]:
    """The targets of a process's descriptors; skips those that it closes meanwhile."""
    names = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.add(os.readlink(path))
    return names


def test_worker_ends_when_the_broker_is_killed(broker: BrokerProcess) -> None:
    worker = compacting(broker)
    broker.kill()
    until(lambda: is_gone(worker))


def test_worker_ends_when_the_broker_stops(broker: BrokerProcess) -> None:
    worker = compacting(broker)
    started = time.monotonic()
    assert broker.stop() == 0
    assert time.monotonic() - started < LIMIT_S / 2, "nobody waits for a compaction"
    assert is_gone(worker)
    assert not files(broker, ".cleaned")
    assert not files(broker, ".swap")


def test_the_broker_continues_when_the_worker_is_killed(broker: BrokerProcess) -> None:
    worker = compacting(broker)
    os.kill(worker, signal.SIGKILL)
    until(lambda: "was ended by signal 9" in broker.output)
    assert "failed without loss" in broker.output
    produce(broker.bootstrap, 100)
    until(lambda: not files(broker, ".cleaned"))
    assert broker.stop() == 0


def test_worker_inherits_only_its_pipes_from_the_broker(broker: BrokerProcess) -> None:
    worker = compacting(broker)
    until(
        lambda: (
            os.getpriority(os.PRIO_PROCESS, worker) > os.getpriority(os.PRIO_PROCESS, broker.pid)
            or os.getpriority(os.PRIO_PROCESS, broker.pid) + NICENESS > MOST_NICE
        )
    )
    allowed = ("pipe:", str(broker.data_dir / "t-0"))
    # Files that it reads while it starts (libraries, modules) are closed again; inherited ones would stay open.
    until(lambda: all(name.startswith(allowed) for name in opened_by(worker)))
    assert opened_by(worker), "the worker has pipes for as long as it lives"
