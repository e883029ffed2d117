"""Every client sends records of every kind through the broker and reads the same bytes back."""

from __future__ import annotations

import os

import pytest

from tests.interop.clients.aio import Aiokafka
from tests.interop.clients.base import StockClient
from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.clients.kafka_python import KafkaPython
from tests.interop.clients.kcat import Kcat
from tests.interop.conftest import TopicFactory
from tests.interop.workload import CODECS, Workload, assert_same

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIBRARIES: tuple[StockClient, ...] = (ConfluentKafka(), Aiokafka(), KafkaPython())
CLIENTS: tuple[StockClient, ...] = (*LIBRARIES, Kcat())
QUICK_RECORDS = 20_000
QUICK = (("none", 1), ("none", 200), ("gzip", 1), ("snappy", 200), ("lz4", 1), ("zstd", 200))
TOTAL_RECORDS = int(os.environ.get("BARNABAS_TEST_RECORDS", "1000000"))
FULL = tuple((codec, partitions) for codec in CODECS for partitions in (1, 200))


@pytest.mark.parametrize(("codec", "partitions"), QUICK)
@pytest.mark.parametrize("client", CLIENTS, ids=repr)
def test_twenty_thousand_records_come_back(
    bootstrap: str, topic: TopicFactory, client: StockClient, codec: str, partitions: int
) -> None:
    round_trip(
        bootstrap, topic(partitions), client, codec, client.workload(QUICK_RECORDS // len(QUICK), partitions)
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("codec", "partitions"), FULL)
@pytest.mark.parametrize("client", CLIENTS, ids=repr)
def test_a_million_records_come_back(
    bootstrap: str, topic: TopicFactory, client: StockClient, codec: str, partitions: int
) -> None:
    round_trip(
        bootstrap, topic(partitions), client, codec, client.workload(TOTAL_RECORDS // len(FULL), partitions)
    )


@pytest.mark.parametrize(
    "codec",
    [pytest.param(codec, marks=pytest.mark.slow) for codec in CODECS if codec != "snappy"] + ["snappy"],
)
def test_every_client_reads_the_records_of_every_other(
    bootstrap: str, topic: TopicFactory, codec: str
) -> None:
    for writer in LIBRARIES:
        name = topic()
        workload = writer.workload(1000, 1)
        produced = writer.produce(bootstrap, name, workload, codec)
        for reader in LIBRARIES:
            assert_same(produced, reader.consume(bootstrap, name, 1, workload.count))


def round_trip(bootstrap: str, topic: str, client: StockClient, codec: str, workload: Workload) -> None:
    """Produces and consumes with the same client."""
    if reason := client.missing():
        pytest.skip(reason)
    produced = client.produce(bootstrap, topic, workload, codec)
    assert produced.count == workload.count
    assert_same(produced, client.consume(bootstrap, topic, workload.partitions, workload.count))
