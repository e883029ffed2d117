"""kill -9 while producers write and replicas move between log directories: no acknowledged record is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.conformance.broker_connection import BrokerConnection, ClosedError
from tests.faults.ledger import Account, Reader, Writer
from tests.faults.test_kill import CODECS, PARTITIONS, TOPIC, create_topic, read_again, wait_for_progress
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.chance import seed_or

pytestmark = [pytest.mark.faults, pytest.mark.clients]

KILLS = int(os.environ.get("BARNABAS_KILLS", "12"))
"""How often the longer test kills; 200 and more for a thorough run."""

DONE = " is done: "
"""A part of the log line about a completed move."""

REST_LIMIT_S = 60.0


class Mover(threading.Thread):
    """Moves partitions back and forth, whether or not the last move has completed."""

    def __init__(self, broker: BrokerProcess, directories: list[str], seed: int) -> None:
        super().__init__(name="mover", daemon=True)
        self._port = broker.port
        self._directories = directories
        self._dice = random.Random(seed)
        self._ended = threading.Event()
        self.wrong_answers: list[int] = []

    def run(self) -> None:
        with BrokerConnection("127.0.0.1", self._port) as connection:
            while not self._ended.wait(self._dice.uniform(0.0, 0.15)):
                try:
                    self._request(connection)
                except (ClosedError, OSError):
                    connection.close()

    def _request(self, connection: BrokerConnection) -> None:
        request = AlterReplicaLogDirsRequest
        topic = request.AlterReplicaLogDirTopic(name=TOPIC)
        topic.partitions = self._dice.sample(range(PARTITIONS), self._dice.randrange(1, PARTITIONS + 1))
        path = self._dice.choice(self._directories)
        answer = connection.request(request(dirs=[request.AlterReplicaLogDir(path=path, topics=[topic])]), 2)
        assert isinstance(answer, AlterReplicaLogDirsResponse)
        self.wrong_answers += [
            it.error_code for one in answer.results for it in one.partitions if it.error_code
        ]

    def finish(self) -> None:
        self._ended.set()
        self.join()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("settings", [{}, {"log.flush.interval.messages": "1"}], ids=["cached", "durable"])
def test_two_kills(tmp_path: Path, settings: dict[str, str]) -> None:
    kill_and_count(tmp_path, settings, rounds=2, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
def test_many_kills_in_a_row(tmp_path: Path) -> None:
    kill_and_count(tmp_path, {}, rounds=KILLS, seed=seed_or(50))


def kill_and_count(parent: Path, settings: dict[str, str], rounds: int, seed: int) -> None:
    """Runs the experiment; the seed decides when it kills, and is printed."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    directories = [str(parent / name) for name in ("a", "b", "c")]
    overrides = {"log.dirs": ",".join(directories), "log.segment.delete.delay.ms": "200", **settings}
    broker = BrokerProcess(parent / "a", overrides)
    moves = 0
    with broker:
        create_topic(broker.bootstrap)
        writers = [
            Writer(broker.bootstrap, TOPIC, PARTITIONS, number, codec) for number, codec in enumerate(CODECS)
        ]
        reader = Reader(broker.bootstrap, TOPIC, Account(len(writers), PARTITIONS))
        mover = Mover(broker, directories, seed)
        for thread in (reader, *writers, mover):
            thread.start()
        for number in range(rounds):
            wait_for_progress(writers, reader, dice.randrange(1, 6000))
            time.sleep(dice.uniform(0.0, 0.3))
            broker.kill()
            moves += broker.output.count(DONE)
            if number % 5 == 4:
                broker.spawn()
                time.sleep(dice.uniform(0.0, 0.8))
                broker.kill()
            broker.start()
            assert "Traceback" not in broker.output, broker.output[-4000:]
        wait_for_progress(writers, reader, 500)
        mover.finish()
        for writer in writers:
            writer.finish()
        reader.finish()
        wait_for_rest(broker)
        read_again(broker.bootstrap, writers).check(writers)
        moves += broker.output.count(DONE)
        assert "Traceback" not in broker.output, broker.output[-4000:]
        assert mover.wrong_answers == []
        print(
            f"{rounds} kills, {sum(writer.count for writer in writers)} records acknowledged, {moves} moves"
        )
        assert broker.stop() == broker.clean_status
    assert moves >= rounds, "too few moves for the kills to have met any"
    for path in directories:
        command = [sys.executable, "-m", "barnabas.cli.main", "log", "verify", path]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def wait_for_rest(broker: BrokerProcess) -> None:
    """Returns when no move is under way, and each partition is in one directory."""
    deadline = time.monotonic() + REST_LIMIT_S
    with BrokerConnection("127.0.0.1", broker.port) as connection:
        while True:
            answer = connection.request(DescribeLogDirsRequest(topics=None), 4)
            assert isinstance(answer, DescribeLogDirsResponse)
            assert not any(one.error_code for one in answer.results)
            found = [
                it
                for one in answer.results
                for topic in one.topics
                if topic.name == TOPIC
                for it in topic.partitions
            ]
            if sorted((it.partition_index, it.is_future_key) for it in found) == [
                (index, False) for index in range(PARTITIONS)
            ]:
                return
            assert time.monotonic() < deadline, broker.output[-4000:]
            time.sleep(0.05)
