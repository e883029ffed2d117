"""The versions of requests by metadata.version, as in Kafka 4.3."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.versions import LATEST_TESTING
from barnabas.broker.replica.fetcher.versions import fetch_version, list_offsets_version
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.offsets import ListOffsetsRequest
from barnabas.protocol.schema import Message


@pytest.mark.parametrize(
    ("level", "fetch", "list_offsets"),
    [
        (7, 13, 7),  # 3.3-IV3
        (9, 14, 8),  # 3.5-IV0
        (10, 15, 8),  # 3.5-IV1
        (18, 15, 8),
        (19, 16, 8),  # 3.7-IV4
        (21, 17, 9),  # 3.9-IV0
        (25, 17, 10),  # 4.0-IV3
        (27, 18, 10),  # 4.1-IV1
        (29, 18, 11),  # 4.2-IV1
        (30, 18, 11),  # 4.3-IV0
    ],
)
def test_each_level(level: int, fetch: int, list_offsets: int) -> None:
    assert fetch_version(level, uses_topic_ids=True) == fetch
    assert list_offsets_version(level) == list_offsets


def test_a_fetch_by_name() -> None:
    assert fetch_version(30, uses_topic_ids=False) == 12


def test_no_version_is_beyond_the_declared_ones() -> None:
    assert fetch_version(LATEST_TESTING, uses_topic_ids=True) in _versions(FetchRequest)
    assert list_offsets_version(LATEST_TESTING) in _versions(ListOffsetsRequest)


def _versions(message: type[Message]) -> range:
    versions = message.versions
    return range(versions.low, versions.high + 1)
