"""The loader prepares for each image and publishes it; a publisher that raises does not keep it from the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader, MetadataPublishers
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.waiting.blocking import Work
from barnabas.protocol.messages.topic_records import TopicRecord
from tests.broker.held_runner import HeldRunner


class Story:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.lines.append(f"{image.offset}/{image.epoch} " + " ".join(sorted(image.topics)))

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        self.note(image, delta)
        yield
        self.lines.append("the rest")

    def prepare(self, image: MetadataImage, delta: MetadataDelta) -> Work | None:
        return (lambda: self.lines.append("prepared")) if delta.created_topics else None


def creation(image: MetadataImage, name: str) -> tuple[MetadataImage, MetadataDelta]:
    record = TopicRecord(name=name, topic_id=name.encode().ljust(16))
    return replayed(image, [record], offset=image.offset + 1, epoch=2)


def test_an_image_is_prepared_off_the_loop_and_then_published() -> None:
    story, disk = Story(), HeldRunner()
    loader = MetadataLoader(MetadataImage.empty(), disk, story.publish, story.prepare)
    loader.take_over(*creation(loader.image, "a"), lambda: story.lines.append("a is there"))
    assert story.lines == []
    assert loader.image.topics == {}
    disk.release()
    assert story.lines == ["prepared", "0/2 a", "the rest", "a is there"]
    loader.take_over(*replayed(loader.image, [], offset=7, epoch=3), lambda: None)
    assert story.lines[4:] == ["7/3 a", "the rest"], "there is nothing to prepare for"


def test_the_loop_may_run_between_the_slices_of_an_image() -> None:
    story, paused = Story(), list[Callable[[], None]]()
    loader = MetadataLoader(MetadataImage.empty(), HeldRunner(), story.publish, pause=paused.append)
    loader.take_over(*creation(loader.image, "a"), lambda: story.lines.append("a is there"))
    assert story.lines == ["0/2 a"]
    assert "a" in loader.image.topics
    paused.pop()()
    assert story.lines == ["0/2 a", "the rest", "a is there"]
    assert not paused


def test_a_publisher_that_raises_is_skipped_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    story = Story()

    def stumble(image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        yield
        raise RuntimeError("a bug")

    publishers = MetadataPublishers(first=stumble)
    publishers.add(story.note)
    image, delta = creation(MetadataImage.empty(), "a")
    assert list(publishers.begin(image, delta)) == [None]
    assert publishers.failures == 0, "the first one is not part of the beginning"
    with caplog.at_level(logging.ERROR):
        assert list(publishers.publish(image, delta)) == [None]
    assert story.lines == ["0/2 a"] * 2
    assert publishers.failures == 1
    assert "stumble" in caplog.text
