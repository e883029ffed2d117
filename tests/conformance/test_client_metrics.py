"""The Java producer pushes its metrics, compressed and as deltas, and the broker's sums are right."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.kafka_jars import require_classpath
from tests.interop.test_security import HTTP, subscribe
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(180)]

LIMIT_S = 60.0
PRODUCER = "org_apache_kafka_producer"
SENT = (f"{PRODUCER}_record_send_total", None)


@contextmanager
def producing(bootstrap: str, classpath: str) -> Iterator[None]:
    """Runs Kafka's own producer tool in the background."""
    words = ["--topic", "metrics", "--num-records", "1000000", "--throughput", "200", "--record-size", "10"]
    properties = [f"bootstrap.servers={bootstrap}", "client.id=java-metrics"]
    command = ["java", "-Xmx256m", "-cp", classpath, "org.apache.kafka.tools.ProducerPerformance", *words]
    process = subprocess.Popen(
        [*command, "--producer-props", *properties], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def scrape(url: str) -> dict[tuple[str, str | None], float]:
    """The metrics that the client has pushed: values by name and topic."""
    with urllib.request.urlopen(url, timeout=LIMIT_S) as response:
        text = response.read().decode()
    return {
        (sample.name, sample.labels.get("topic")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("client_id") == "java-metrics"
    }


def until_more_than(url: str, sent: float) -> dict[tuple[str, str | None], float]:
    """Waits until the client has reported more than `sent` records; returns the metrics then."""
    deadline = time.monotonic() + LIMIT_S
    while (pushed := scrape(url)).get(SENT, 0) <= sent:
        assert time.monotonic() < deadline, pushed
        time.sleep(0.05)
    return pushed


def test_deltas_of_a_java_producer_add_up(tmp_path: Path) -> None:
    classpath = require_classpath()
    with BrokerProcess(tmp_path / "data", {"barnabas.http.port": "0"}) as broker:
        subscribe(broker, metrics="*", interval_ms="200", match="client_software_name=apache-kafka-java")
        found = HTTP.search(broker.output)
        assert found is not None, broker.output
        with producing(broker.bootstrap, classpath):
            first = until_more_than(found[1], 0)
            later = until_more_than(found[1], first[SENT])
    for pushed in (first, later):
        assert pushed[f"{PRODUCER}_topic_record_send_total", "metrics"] == pushed[SENT]
        assert pushed[f"{PRODUCER}_connection_creation_total", None] >= 1
        assert pushed[f"{PRODUCER}_buffer_total_bytes", None] == 32 << 20
        assert (f"{PRODUCER}_record_queue_time_avg", None) in pushed
