"""The brokers that are measured: Barnabas, and Apache Kafka where Java and Maven are at hand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.support.apache_kafka import ApacheKafka, free_ports
from tests.support.broker_process import BrokerProcess

Broker = BrokerProcess | ApacheKafka
Factory = Callable[[Path], Broker]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def barnabas(directory: Path) -> BrokerProcess:
    """Our broker as it is installed: defaults, the HTTP port included."""
    broker = BrokerProcess(directory / "data", {"barnabas.http.port": "0"})
    (broker.port,) = free_ports(1)
    return broker


def factories(*, with_kafka: bool) -> dict[str, Factory]:
    """A factory for each broker that can be started here; says why when Apache Kafka cannot."""
    found: dict[str, Factory] = {"Barnabas": barnabas}
    if with_kafka:
        try:
            jars = classpath()
        except KafkaMissingError as error:
            print(f"Apache Kafka is not measured: {error}")
        else:
            found[f"Apache Kafka {KAFKA_VERSION}"] = lambda directory: ApacheKafka(directory, jars)
    return found


@contextmanager
def fresh(factory: Factory) -> Iterator[Broker]:
    """A broker in a new directory, not yet started; killed and removed in the end."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        broker = factory(Path(directory))
        try:
            yield broker
        finally:
            broker.kill()


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    pids = [pid]
    for one in pids:
        for task in Path(f"/proc/{one}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
    return pids


def rss_mib(broker: Broker) -> float:
    """Resident memory of the broker with all its processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in tree(broker.pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def cpu_s(broker: Broker) -> float:
    """Processor time that the broker has used since its start, all processes."""
    ticks = 0
    for pid in tree(broker.pid):
        # The name in parentheses may hold blanks; utime and stime are the 12th and 13th word behind it.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / _TICKS_PER_S
