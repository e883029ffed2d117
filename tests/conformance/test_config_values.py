"""Both brokers accept and reject the same dynamic values of every key, with the same error codes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.config.catalogue import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
)
from barnabas.config.keys import DynamicMode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
VERSION = 1
NAME = "t"
AT_ONCE = 50

VALUES = ("", "0", "-1", "5", "x", "99999999999", " 7 ")
MORE_VALUES = (
    "-2",
    "1",
    "2",
    "1.5",
    "true",
    "0.5",
    "9223372036854775808",
    "a,b",
    "PT1H",
    "latest",
    "1e3",
    "*",
    "0:1",
)
"""With BARNABAS_CONFIG_VALUES=all."""

OURS_ALONE = {"allow.everyone.if.no.acl.found", "super.users"}
"""Keys of Kafka's authorizer, which its broker accepts like any unknown name; Barnabas reads them at the start."""


class Change(NamedTuple):
    """A change of one key of one resource."""

    kind: int
    name: str
    key: str
    operation: int
    value: str | None


def changes() -> Iterator[Change]:
    values = VALUES + (MORE_VALUES if os.environ.get("BARNABAS_CONFIG_VALUES") == "all" else ())
    for key in TOPIC_KEYS:
        yield from (
            Change(TOPIC, NAME, key, how, value) for value in values for how in (SET, APPEND, SUBTRACT)
        )
    for key, known in {**BROKER_KEYS, **DYNAMIC_BROKER_KEYS}.items():
        if key.startswith("barnabas.") or key in OURS_ALONE:
            continue
        wanted = values if known.dynamic is not DynamicMode.READ_ONLY else values[:1]
        for name in ("1", ""):
            yield from (Change(BROKER, name, key, SET, value) for value in wanted)
            yield Change(BROKER, name, key, DELETE, None)
    for key in GROUP_KEYS:
        yield from (Change(GROUP, NAME, key, SET, value) for value in values)
    for key in CLIENT_METRICS_KEYS:
        yield from (Change(METRICS, NAME, key, SET, value) for value in values)


def request(change: Change) -> IncrementalAlterConfigsRequest:
    """A request that only validates, so that no response depends on an earlier change."""
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name=change.key, config_operation=change.operation, value=change.value
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=change.kind, resource_name=change.name, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def codes(port: int, wanted: Sequence[Change]) -> dict[Change, int]:
    """The error code of each change, requested with many in flight at a time."""
    found: dict[Change, int] = {}
    with BrokerConnection("127.0.0.1", port) as connection:
        topic = CreateTopicsRequest.CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
        connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            for change in some:
                connection.send(request(change), VERSION)
            for change in some:
                answer = connection.receive(request(change), VERSION)
                assert isinstance(answer, IncrementalAlterConfigsResponse)
                found[change] = answer.responses[0].error_code
    return found


def test_every_key_accepts_the_values_that_kafkas_accepts(tmp_path: Path) -> None:
    wanted = list(changes())
    settings = {"node.id": "1"}
    with ApacheKafka(tmp_path / "kafka", require_classpath(), settings) as kafka:
        expected = codes(kafka.port, wanted)
    with BrokerProcess(tmp_path / "barnabas", {**settings, "barnabas.profile": "kafka"}) as barnabas:
        ours = codes(barnabas.port, wanted)
    assert len(set(expected.values())) > 2
    assert {one: (ours[one], code) for one, code in expected.items() if ours[one] != code} == {}
