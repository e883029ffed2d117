"""Kafka Connect: lines of a file through a topic into another file, by one worker, or by two of which one is killed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import TopicFactory
from tests.interop.connect import Worker, file_sink, file_source
from tests.interop.reading import values

pytestmark = [pytest.mark.clients, pytest.mark.conformance, pytest.mark.timeout(400)]

LINES = int(os.environ.get("BARNABAS_CONNECT_LINES", "3000"))


class Lines:
    """The file that a source reads, and the file that a sink writes."""

    def __init__(self, directory: Path) -> None:
        self.source, self.sink = directory / "source.txt", directory / "sink.txt"
        self.source.touch()
        self._count = 0

    def write(self, count: int) -> None:
        """Writes `count` further lines."""
        with self.source.open("a") as file:
            for _ in range(count):
                file.write(f"line {self._count}\n")
                self._count += 1

    @property
    def written(self) -> list[str]:
        """All written lines."""
        return self.source.read_text().splitlines()

    @property
    def copied(self) -> list[str]:
        """The lines that have arrived."""
        return self.sink.read_text().splitlines() if self.sink.exists() else []


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path)


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """Workers, which are killed after the test."""
    started: list[Worker] = []
    yield started
    for worker in started:
        worker.kill()


def test_a_standalone_worker_continues_where_it_stopped(
    bootstrap: str, topic: TopicFactory, tmp_path: Path, lines: Lines, workers: list[Worker]
) -> None:
    name, group = topic(), uuid.uuid4().hex[:8]
    settings = {
        "bootstrap.servers": bootstrap,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "500",
        "consumer.session.timeout.ms": "1500",
        "consumer.heartbeat.interval.ms": "300",
    }
    connectors = {
        f"source-{group}": file_source(lines.source, name),
        f"sink-{group}": file_sink(lines.sink, name),
    }
    for number in range(2):
        lines.write(LINES)
        worker = Worker(tmp_path / f"worker-{number}", settings, connectors)
        workers.append(worker)
        worker.wait(lambda: len(lines.copied) >= len(lines.written), "every line is copied")
        worker.stop()
        assert lines.copied == lines.written
    assert values(bootstrap, name) == [line.encode() for line in lines.written]


def test_two_workers_share_the_work_and_one_is_killed(
    bootstrap: str, topic: TopicFactory, tmp_path: Path, lines: Lines, workers: list[Worker]
) -> None:
    """The worker topics are compacted, and the source is exactly once: the producer of the killed worker is fenced."""
    name, group = topic(), f"connect-{uuid.uuid4().hex[:8]}"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "500",
        "rebalance.timeout.ms": "5000",
        "scheduled.rebalance.max.delay.ms": "0",
        "connector.client.config.override.policy": "All",
        "consumer.session.timeout.ms": "1500",
        "consumer.heartbeat.interval.ms": "300",
        **{f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")},
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
    }
    workers += [Worker(tmp_path / f"worker-{number}", settings) for number in range(2)]
    one, two = workers
    lines.write(LINES)
    one.put(f"source-{group}", file_source(lines.source, name))
    one.put(f"sink-{group}", file_sink(lines.sink, name))
    for worker in workers:
        worker.await_running(f"source-{group}")
        worker.await_running(f"sink-{group}")
    one.wait(lambda: len(lines.copied) >= LINES, "every line is copied")
    places = {
        one.ask(f"connectors/{kind}-{group}/status")["tasks"][0]["worker_id"] for kind in ("source", "sink")
    }
    assert places == {f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port}"}
    lines.write(LINES)
    one.kill()
    lines.write(LINES)
    # The sink may have duplicates of lines without a committed offset; the topic may not.
    two.wait(lambda: set(lines.copied) >= set(lines.written), "every line is copied after the kill")
    assert values(bootstrap, name) == [line.encode() for line in lines.written]
    two.ask(f"connectors/source-{group}", "DELETE")
    two.wait(lambda: two.ask("connectors") == [f"sink-{group}"], "the source is gone")
    two.stop()
