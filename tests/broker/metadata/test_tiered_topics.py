"""TieredTopics: which topics are warned of, and when."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.image import TOPIC_RESOURCE, MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.tiered_topics import TieredTopics
from barnabas.protocol.messages.topic_records import ConfigRecord
from tests.broker.cluster_images import topic_records

HERE, ELSEWHERE = 1, 2


def tiered(topic: str, value: str | None = "true") -> ConfigRecord:
    return ConfigRecord(
        resource_type=TOPIC_RESOURCE, resource_name=topic, name="remote.storage.enable", value=value
    )


def test_a_tiered_topic_with_a_replica_here_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    topics = TieredTopics(HERE)
    image, delta = replayed(MetadataImage.empty(), [*topic_records("t", [HERE]), tiered("t")])
    topics.apply(image, delta)
    topics.apply(*replayed(image, [tiered("t")]))
    (line,) = caplog.messages
    assert line.startswith("remote.storage.enable=true for 1 topics with replicas here (t)")


def test_topics_elsewhere_and_topics_that_are_not_tiered_are_not_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = [
        *topic_records("elsewhere", [ELSEWHERE]),
        tiered("elsewhere"),
        *topic_records("local", [HERE]),
        tiered("local", "false"),
        *topic_records("plain", [HERE]),
        tiered("gone"),
    ]
    TieredTopics(HERE).apply(*replayed(MetadataImage.empty(), records))
    assert not caplog.messages


def test_a_replica_that_comes_and_a_setting_that_returns_are_named(caplog: pytest.LogCaptureFixture) -> None:
    topics = TieredTopics(HERE)
    image, delta = replayed(MetadataImage.empty(), [*topic_records("t", [HERE]), tiered("t")])
    topics.apply(image, delta)
    image, delta = replayed(image, [tiered("t", None)])
    topics.apply(image, delta)
    topics.apply(*replayed(image, [tiered("t")]))
    assert len(caplog.messages) == 2


def test_a_line_names_a_few_of_many(caplog: pytest.LogCaptureFixture) -> None:
    records = [
        record for n in range(12) for record in (*topic_records(f"t{n:02}", [HERE]), tiered(f"t{n:02}"))
    ]
    image, _ = replayed(MetadataImage.empty(), records)
    TieredTopics(HERE).apply(image, MetadataDelta.everything(image))
    (line,) = caplog.messages
    assert "for 12 topics" in line
    assert "t09, ...)" in line
    assert "t10" not in line
