"""Runs an ingest and a producer while the driver, its executors and the broker are killed, and checks the tables.

The reference is the topic as a plain consumer reads it in the end: each of its records is once in the table or in the
quarantine, with the same bytes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from bench.accounting import tree
from tests.pipeline import plain
from tests.pipeline.plain import Record
from tests.support.broker_process import ROOT, BrokerProcess, Output

BAD_EVERY = 37
"""Every so many values is no JSON."""
PARTITIONS = 3
LOAD_PER_S = 300
MAX_ENDED = 5
"""Drivers that may end by themselves, beside one for each kill."""
END_LIMIT_S = 900.0
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


class Load:
    """Produces without a pause, in a thread, also while the broker is down."""

    def __init__(self, bootstrap: str, topic: str, per_s: int) -> None:
        self.sent = 0
        self._topic = topic
        self._per_s = per_s
        self._client = plain.producer(bootstrap, message_timeout_ms=600_000, request_timeout_ms=5000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for _ in range(self._per_s // 20):
                with contextlib.suppress(BufferError, KafkaException):
                    self._client.produce(self._topic, value(self.sent), partition=self.sent % PARTITIONS)
                    self.sent += 1
            self._client.poll(0)

    def stop(self) -> None:
        """Stops when all records are acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._client.flush(120) == 0


def value(number: int) -> bytes:
    """The value of record n."""
    return b"{no" if number % BAD_EVERY == 0 else json.dumps({"id": number}).encode()


class Driver:
    """The driver process of an ingest, with its JVM and Python workers."""

    def __init__(self, told: dict[str, Any], log: Path) -> None:
        self._log = log
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.ingest.driver", json.dumps(told)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        self.output = Output(self.process.stdout)

    def running(self) -> bool:
        """As far as Python goes."""
        return self.process.poll() is None

    def processes(self, word: str) -> list[int]:
        """The driver's descendants whose command line contains a word."""
        found = []
        for pid in tree(self.process.pid):
            with contextlib.suppress(OSError):
                if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def kill(self, pids: list[int]) -> int:
        """Kills them (SIGKILL); returns their number."""
        killed = 0
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def end(self) -> None:
        """Kills the driver and all its descendants, and waits until they have ended."""
        self.kill(list(reversed(tree(self.process.pid))) if self.running() else [])
        self.process.wait(30)

    def tail(self) -> str:
        """The end of its output."""
        return self.output.text[-2000:] + self._log.read_text(errors="replace")[-4000:]


class Scene(NamedTuple):
    """The processes and directories of a run."""

    broker: BrokerProcess
    topic: str
    directory: Path
    table_format: str
    executors: bool
    rng: random.Random

    def told(self, **changes: Any) -> dict[str, Any]:
        """The argument of the driver."""
        options = {
            "bootstrap": self.broker.bootstrap,
            "table": str(self.directory / "table"),
            "checkpoint": str(self.directory / "checkpoint"),
            "topics": [self.topic],
            "table_format": self.table_format,
            "decode": {"value_format": "json", "schema_file": str(self.directory / "schema.json")},
            "trigger": "continuous",
            "every_s": 0.2,
            "max_offsets_per_trigger": 3000,
            **changes,
        }
        return {"options": options, "master": "local-cluster[2,1,900]" if self.executors else "local[2]"}

    def victims(self) -> list[str]:
        """The victims in random order, each once before any comes again."""
        found = ["driver", "python", "jvm", "broker", *(["executor"] * 2 if self.executors else [])]
        self.rng.shuffle(found)
        return found


def kills(scene: Scene, count: int) -> list[str]:
    """Runs the ingest and kills so many times; returns the victims in order. The driver has ended then."""
    done: list[str] = []
    deck: list[str] = []
    ended = 0
    load = Load(scene.broker.bootstrap, scene.topic, per_s=LOAD_PER_S)
    driver = _started(scene)
    try:
        while len(done) < count:
            if not driver.running():
                driver = _started(scene)
            _wait_for_work(scene, driver)
            time.sleep(scene.rng.uniform(0, 3))
            deck = deck or scene.victims()
            if driver.running() and _kill(scene, driver, deck[-1]):
                done.append(deck.pop())
            elif not driver.running():
                # Possible causes: the broker was down for too long, or the JVM of the previous driver still ran.
                ended += 1
                assert ended <= count + MAX_ENDED, f"drivers end by themselves: {driver.tail()}"
    finally:
        driver.end()
        load.stop()
    print(f"{ended} drivers ended by themselves")
    return done


def _started(scene: Scene) -> Driver:
    return Driver(scene.told(), scene.directory / "driver.log")


def _wait_for_work(scene: Scene, driver: Driver) -> None:
    """Waits for another batch in most cases, and for less in some."""
    if scene.rng.random() < 0.15:
        time.sleep(scene.rng.uniform(0, 10))
        return
    before = driver.output.text.count("batch ")
    deadline = time.monotonic() + END_LIMIT_S / 3
    while driver.running() and driver.output.text.count("batch ") <= before:
        assert time.monotonic() < deadline, driver.tail()
        time.sleep(0.05)


def _kill(scene: Scene, driver: Driver, victim: str) -> bool:
    """False when the victim did not run."""
    if victim == "broker":
        scene.broker.kill()
        time.sleep(scene.rng.uniform(0, 3))
        scene.broker.start()
        return True
    if victim == "executor":
        return driver.kill(driver.processes("CoarseGrainedExecutorBackend")[:1]) > 0
    if victim == "driver":
        pids = list(reversed(tree(driver.process.pid)))
    elif victim == "python":  # the JVM notices by itself, and may work a moment longer
        pids = [driver.process.pid]
    else:
        pids = driver.processes("SparkSubmit")
    killed = driver.kill(pids)
    driver.process.wait(120)
    return killed > 0


def finish(scene: Scene) -> None:
    """Ingests what is left."""
    deadline = time.monotonic() + END_LIMIT_S
    last = Driver(
        {
            **scene.told(trigger="available-now", max_offsets_per_trigger=None),
            "dump": str(scene.directory / "dump"),
        },
        scene.directory / "driver.log",
    )
    try:
        last.process.wait(deadline - time.monotonic())
        assert last.process.returncode == 0, last.tail()
    finally:
        last.end()


def check(scene: Scene) -> int:
    """The number of records; raises AssertionError unless each is once in one of the tables."""
    topic = plain.read(scene.broker.bootstrap, scene.topic)
    table, quarantine = (sorted(dumped(scene.directory / "dump" / name)) for name in ("table", "quarantine"))
    bad = [record for record in topic if record.value == b"{no"]
    good = [record for record in topic if record.value != b"{no"]
    compare("quarantine", quarantine, bad)
    compare("table", table, good)
    assert bad
    assert good
    return len(topic)


def compare(what: str, found: list[Record], expected: list[Record]) -> None:
    """Asserts that no record is missing, doubled or changed."""
    if found == expected:
        return
    places, wanted = [one[:2] for one in found], {one[:2] for one in expected}
    doubled = sorted({one for one in places if places.count(one) > 1}) if len(places) < 10_000 else "?"
    missing, strange = sorted(wanted - set(places)), sorted(set(places) - wanted)
    raise AssertionError(
        f"{what}: {len(found)} rows for {len(expected)} records; missing {missing[:10]} ({len(missing)}), "
        f"not in the topic {strange[:10]} ({len(strange)}), doubled {doubled}"
    )


def dumped(path: Path) -> Iterator[Record]:
    """Reads the output of `driver.dump`."""
    for line in path.read_text().splitlines():
        partition, offset, text, *_ = json.loads(line)
        yield Record(partition, offset, None, None if text is None else base64.b64decode(text))
