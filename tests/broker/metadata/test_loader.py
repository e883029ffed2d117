"""The loader: committed records, wherever they come from, become images in order, each published when it can be."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.log import MetadataBatch
from barnabas.broker.waiting.blocking import InlineRunner, Work
from barnabas.protocol.messages.topic_records import NoOpRecord, RemoveTopicRecord, TopicRecord
from tests.broker.held_runner import HeldRunner


class Story:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.lines.append(f"{image.offset}/{image.epoch} " + " ".join(sorted(image.topics)))

    def prepare(self, image: MetadataImage, delta: MetadataDelta) -> Work | None:
        return (lambda: self.lines.append("prepared")) if delta.created_topics else None


def creation(name: str, offset: int) -> MetadataBatch:
    return MetadataBatch([TopicRecord(name=name, topic_id=name.encode().ljust(16))], offset, 2)


def test_what_a_quorum_committed_is_published_in_order_by_whoever_fetches_it() -> None:
    story, disk = Story(), HeldRunner()
    loader = MetadataLoader(MetadataImage.empty(), disk, story.publish, story.prepare)
    loader.committed(creation("a", 0), lambda: story.lines.append("a is there"))
    loader.committed(creation("b", 1))
    loader.committed(MetadataBatch([RemoveTopicRecord(topic_id=b"a".ljust(16)), NoOpRecord()], 3, 3))
    assert story.lines == []
    assert loader.image.topics == {}

    disk.release()
    assert story.lines == ["prepared", "0/2 a", "a is there"]
    disk.release()
    assert story.lines[3:] == ["prepared", "1/2 a b", "3/3 b"]


def test_a_batch_without_records_moves_the_offset() -> None:
    story = Story()
    loader = MetadataLoader(MetadataImage.empty(), InlineRunner(), story.publish)
    loader.committed(MetadataBatch([], 7, 1))
    assert (loader.image.offset, loader.image.epoch) == (7, 1)


def test_records_that_do_not_fit_are_an_error_and_change_nothing() -> None:
    loader = MetadataLoader(MetadataImage.empty(), InlineRunner(), Story().publish)
    with pytest.raises(ValueError, match="does not exist"):
        loader.committed(MetadataBatch([RemoveTopicRecord(topic_id=b"a" * 16)], 0, 1))
    assert loader.image.offset == -1
