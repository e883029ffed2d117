"""kafka-configs prints the same for both brokers after the same changes to every kind of resource."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.java_admin import JavaAdmin, ToolRun
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

SETTINGS = {"node.id": "1", "log.retention.hours": "100", "message.max.bytes": "999999"}

SETTLE_S = 20.0
"""Kafka answers before its broker has applied the change of its controller."""

CHANGES = (
    "topics --entity-name t --alter --add-config retention.ms=5,cleanup.policy=[compact,delete],flush.ms=7",
    "topics --entity-name t --alter --delete-config flush.ms",
    "topics --entity-name t --alter --delete-config segment.ms",
    "topics --entity-name t --alter --add-config no.such.key=1",
    "topics --entity-name t --alter --add-config retention.ms=x",
    "topics --entity-name nobody --alter --add-config retention.ms=5",
    "brokers --entity-default --alter --add-config message.max.bytes=500000,log.cleaner.backoff.ms=777",
    "brokers --entity-name 1 --alter --add-config message.max.bytes=600000,log.retention.ms=99999",
    "brokers --entity-name 1 --alter --add-config log.cleaner.threads=2",
    "brokers --entity-name 1 --alter --add-config log.cleaner.threads=9",
    "brokers --entity-name 1 --alter --add-config num.partitions=9",
    "brokers --entity-default --alter --add-config listeners=PLAINTEXT://:5",
    "brokers --entity-default --alter --delete-config log.cleaner.backoff.ms",
    "brokers --entity-name 1 --alter --delete-config log.retention.bytes",
    "broker-loggers --entity-name 1 --alter --add-config root=DEBUG",
    "broker-loggers --entity-name 1 --alter --add-config root=LOUD",
    "broker-loggers --entity-name 1 --alter --add-config no.such.logger=INFO",
    "broker-loggers --entity-name 1 --alter --add-config root=INFO",
    "client-metrics --entity-name m --alter --add-config metrics=[a,b],interval.ms=500,match=[client_id=x.*]",
    "client-metrics --entity-name m --alter --add-config interval.ms=5",
    "client-metrics --entity-name n --alter --add-config nope=5",
    "groups --entity-name g --alter --add-config consumer.session.timeout.ms=50000",
    "groups --entity-name g --alter --add-config share.isolation.level=read_committed",
    "groups --entity-name g --alter --add-config consumer.session.timeout.ms=5",
    "groups --entity-name g --alter --delete-config share.isolation.level",
)
"""Changes, valid and invalid. Dialogues cover descriptions of groups: the tool also requests a list of all groups."""

DESCRIPTIONS = (
    "topics --describe",
    "topics --entity-name t --describe",
    "topics --entity-name t --describe --all",
    "topics --entity-name nobody --describe",
    "brokers --describe",
    "brokers --entity-default --describe",
    "brokers --entity-default --describe --all",
    "brokers --entity-name 1 --describe",
    "client-metrics --describe",
    "client-metrics --entity-name m --describe",
    "client-metrics --entity-name n --describe",
)

RESETS = (
    "topics --entity-name t --alter --delete-config retention.ms,cleanup.policy",
    "brokers --entity-name 1 --alter --delete-config message.max.bytes,log.retention.ms,log.cleaner.threads",
    "brokers --entity-default --alter --delete-config message.max.bytes",
    "client-metrics --entity-name m --alter --delete-config metrics,interval.ms,match",
    "groups --entity-name g --alter --delete-config consumer.session.timeout.ms",
)
"""Changes that undo `CHANGES`."""

_ERROR = re.compile(r"errors\.(\w+)")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def barnabas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**SETTINGS, "barnabas.profile": "kafka"}
    with BrokerProcess(Path(tmp_path_factory.mktemp("barnabas")), settings) as running:
        yield running


def configs(java: JavaAdmin, bootstrap: str, words: str) -> ToolRun:
    return java.tool("kafka-configs", "--bootstrap-server", bootstrap, "--entity-type", *words.split())


def outcome(run: ToolRun) -> object:
    """Exit status, errors and output; the text of errors is left out, as each broker has its own."""
    return (
        run.status,
        set(_ERROR.findall(run.err + run.out)),
        [] if run.status else sorted(run.out.splitlines()),
    )


def assert_same_output(java: JavaAdmin, kafka: ApacheKafka, barnabas: BrokerProcess, words: str) -> None:
    """The output for Kafka equals ours within `SETTLE_S`."""
    ours = outcome(configs(java, barnabas.bootstrap, words))
    deadline = time.monotonic() + SETTLE_S
    while (theirs := outcome(configs(java, kafka.bootstrap, words))) != ours and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours == theirs, words


def test_kafka_configs_prints_the_same_after_the_same_changes(
    java: JavaAdmin, kafka: ApacheKafka, barnabas: BrokerProcess
) -> None:
    for broker in (kafka, barnabas):
        java.tool("kafka-topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t")
    for changes in (CHANGES, RESETS):
        for words in changes:
            ours, theirs = (outcome(configs(java, broker.bootstrap, words)) for broker in (barnabas, kafka))
            assert ours == theirs, words
            # Kafka's broker validates the next change against its own state, which must be the new one by then.
            if words.startswith("brokers"):
                assert_same_output(java, kafka, barnabas, "brokers --entity-name 1 --describe")
        for words in DESCRIPTIONS:
            assert_same_output(java, kafka, barnabas, words)
