"""The first start of a broker: the shipped configuration, two brokers on one machine, start time and memory."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import startup
from bench.brokers import barnabas
from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.workload import assert_same
from tests.support.broker_process import ROOT, BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


def test_the_shipped_configuration_starts_a_broker(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.properties = ROOT / "config" / "server.properties"
    with broker:
        client = ConfluentKafka()
        workload = client.workload(100, 1)
        produced = client.produce(broker.bootstrap, "first", workload, "none")
        assert_same(produced, client.consume(broker.bootstrap, "first", 1, 100))
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
        assert "warning" not in broker.output.lower(), broker.output


def test_two_brokers_share_a_machine(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one") as one, BrokerProcess(tmp_path / "two") as two:
        assert one.port != two.port
        assert one.stop() == two.stop() == 0


REFERENCE = "import asyncio, http.client, sqlite3, unittest, xml.dom.minidom"
SLOWDOWN = 7.0
"""The start of a broker may take this many times that of an interpreter that imports these modules; usual is 3.5.

`make bench` measures it beside Apache Kafka, on an idle machine; here other processes may run.
"""


@pytest.mark.slow
def test_start_time_relative_to_an_interpreter_and_idle_memory() -> None:
    interpreter, broker = [], []
    for _ in range(startup.STARTS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", REFERENCE], check=True)
        interpreter.append(time.perf_counter() - started)
        broker.append(startup.first_start_s(barnabas))
    assert min(broker) < SLOWDOWN * min(interpreter), (broker, interpreter)
    found = startup.measure({"Barnabas": barnabas}, 1)["Barnabas"]
    assert max(found.idle_mib) < startup.CLAIMED_MIB, found
