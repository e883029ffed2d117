"""franz-go, a Go client with a protocol implementation of its own; if a Go tool chain is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.clients.go import build_go
from tests.interop.clients.lines import LineClient
from tests.interop.conftest import TopicFactory
from tests.interop.workload import CODECS, assert_same

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(900)]

TOTAL_RECORDS = int(os.environ.get("BARNABAS_TEST_RECORDS", "1000000"))
FULL = tuple((codec, partitions) for codec in CODECS for partitions in (1, 200))


@pytest.fixture(scope="module")
def program() -> Path:
    return build_go("")


@pytest.fixture(scope="module")
def go(bootstrap: str, program: Path) -> Iterator[LineClient]:
    client = LineClient([str(program), bootstrap])
    yield client
    client.close()


@pytest.mark.parametrize(("codec", "partitions"), FULL)
def test_a_million_records_come_back(
    go: LineClient, topic: TopicFactory, codec: str, partitions: int
) -> None:
    name, count = topic(partitions), TOTAL_RECORDS // len(FULL)
    produced = go.produce(name, partitions, count, codec)
    assert produced.count == count
    assert_same(produced, go.consume(name, partitions, count))


def test_go_and_librdkafka_read_each_other(go: LineClient, bootstrap: str, topic: TopicFactory) -> None:
    other, count = ConfluentKafka(), 3000
    for codec in CODECS:
        name = topic(3)
        assert_same(go.produce(name, 3, count, codec), other.consume(bootstrap, name, 3, count))
        name = topic(3)
        assert_same(
            other.produce(bootstrap, name, other.workload(count, 3), codec), go.consume(name, 3, count)
        )
