"""Stops of a broker, and conditions under which it does not start."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.workload import assert_same
from tests.support.apache_kafka import answers_metadata
from tests.support.broker_process import BrokerDidNotStartError, BrokerProcess
from tests.support.raw import FETCH, METADATA, RawConnection, frame, header_v1, metadata_request, string

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PROMPT_S = 30.0
"""Half of the max wait of the fetch in these tests."""
TOPIC = "kept"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def fill(broker: BrokerProcess, value: bytes = b"value") -> None:
    """One acknowledged record in a topic that is created for it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(TOPIC, value)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly(broker: BrokerProcess, number: signal.Signals) -> None:
    fill(broker)
    assert not (broker.data_dir / CLEAN_SHUTDOWN).exists()
    broker.signal(number)
    assert broker.wait() == 0
    assert (broker.data_dir / CLEAN_SHUTDOWN).exists()
    assert "Traceback" not in broker.output
    broker.start()
    assert not (broker.data_dir / CLEAN_SHUTDOWN).exists()
    assert broker.stop() == 0


def test_a_kill_leaves_no_clean_shutdown_file(broker: BrokerProcess) -> None:
    fill(broker)
    broker.kill()
    assert not (broker.data_dir / CLEAN_SHUTDOWN).exists()
    broker.start()
    assert broker.stop() == 0


def test_records_survive_stops_and_kills(broker: BrokerProcess) -> None:
    client, workload = ConfluentKafka(), ConfluentKafka().workload(2000, 1)
    produced = client.produce(broker.bootstrap, TOPIC, workload, "zstd")
    for _ in range(2):
        assert broker.stop() == 0
        broker.start()
        assert_same(produced, client.consume(broker.bootstrap, TOPIC, 1, workload.count))
        broker.kill()
        broker.start()
        assert_same(produced, client.consume(broker.bootstrap, TOPIC, 1, workload.count))


def test_the_cluster_and_its_topics_keep_their_ids(broker: BrokerProcess) -> None:
    def identity() -> tuple[bytes, bytes]:
        with RawConnection(broker.bootstrap) as connection:
            # Metadata v10 has a topic's id right behind its name.
            connection.send(frame(header_v1(METADATA, 10, 1) + b"\0" + compact_topic() + b"\0\0\0\0"))
            rest = connection.read_frame().partition(TOPIC.encode())[2]
            return rest[:16], (broker.data_dir / "meta.properties").read_bytes()

    fill(broker)
    before = identity()
    assert before[0] not in {b"", bytes(16)}
    for end in (broker.kill, broker.stop):
        end()
        broker.start()
        assert identity() == before


def compact_topic() -> bytes:
    """The topics of a Metadata v10 request: one, by name."""
    name = TOPIC.encode()
    return b"\x02" + bytes(16) + bytes([len(name) + 1]) + name + b"\0"


def test_a_second_signal_stops_at_once(broker: BrokerProcess) -> None:
    fill(broker)
    started = time.monotonic()
    broker.signal(signal.SIGTERM)
    if broker.returncode is None:
        broker.signal(signal.SIGTERM)
    broker.wait()
    assert time.monotonic() - started < PROMPT_S
    broker.start()
    assert broker.stop() == 0


def test_a_waiting_fetch_does_not_hold_up_the_stop(broker: BrokerProcess) -> None:
    fill(broker)
    fetch = header_v1(FETCH, 4, 1) + struct.pack(">iiiibi", -1, 60_000, 1, 1 << 20, 0, 1) + string(TOPIC)
    with RawConnection(broker.bootstrap) as waiting:
        waiting.send(frame(fetch + struct.pack(">iiqi", 1, 0, 1, 1 << 20)))
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < PROMPT_S


def test_an_idle_connection_does_not_hold_up_the_stop(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as idle:
        idle.send(metadata_request())
        idle.read_frame()
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < PROMPT_S
        assert idle.is_closed()


def test_a_log_directory_has_one_broker(broker: BrokerProcess) -> None:
    fill(broker)
    second = BrokerProcess(broker.data_dir)
    with pytest.raises(BrokerDidNotStartError) as caught:
        second.start()
    assert second.returncode not in {0, None}
    assert str(broker.data_dir) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert answers_metadata(broker.bootstrap)


def test_a_port_has_one_broker(broker: BrokerProcess, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "other")
    second.port = broker.port
    with pytest.raises(BrokerDidNotStartError) as caught:
        second.start()
    assert second.returncode not in {0, None}
    assert str(broker.port) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert answers_metadata(broker.bootstrap)
