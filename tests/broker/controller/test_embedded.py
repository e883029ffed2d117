"""The controller: one decision at a time, durable before its response; no decision when the disk fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from barnabas.broker.controller.embedded import Controller, Decision
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader, Preparation
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner, Work
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import RemoveTopicRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.storage.errors import RecordBatchTooLargeError
from tests.broker.held_runner import HeldRunner


class Story:
    """A metadata log and a publisher that record their calls in one list."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    leader_epoch = 3

    def append(self, batches: Sequence[Sequence[Message]]) -> int:
        self.lines.append("durable " + " | ".join(map(_names, batches)))
        return 10 * len(self.lines)

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        self.lines.append("published " + " ".join(sorted(delta.created_topics)))
        return iter(())

    def answered(self, response: str) -> None:
        self.lines.append(response)


def _names(records: Sequence[Message]) -> str:
    return " ".join(record.name for record in records if isinstance(record, TopicRecord))


def controller_of(story: Story, runner: BlockingRunner, prepare: Preparation | None = None) -> Controller:
    loader = MetadataLoader(
        MetadataImage.empty(), runner, story.publish, prepare or (lambda image, delta: None)
    )
    return Controller(story, loader, runner)


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def disk() -> HeldRunner:
    return HeldRunner()


@pytest.fixture
def controller(story: Story, disk: HeldRunner) -> Controller:
    return controller_of(story, disk)


def create(controller: Controller, name: str) -> Pending[str]:
    def decide(image: MetadataImage) -> Decision[str]:
        if name in image.topics:
            return Decision(f"{name} exists")
        return Decision(f"{name} created", [TopicRecord(name=name, topic_id=name.encode().ljust(16))])

    return controller.submit(decide, lambda error: f"{name} failed: {error}")


def test_a_decision_is_durable_then_published_then_answered(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    create(controller, "a").add_done_callback(story.answered)
    assert story.lines == []
    assert controller.image.topics == {}

    disk.release()

    assert story.lines == ["durable a", "published a", "a created"]
    assert [*controller.image.topics] == ["a"]


def test_a_decision_without_records_is_answered_at_once(controller: Controller, disk: HeldRunner) -> None:
    image = controller.image
    answer = controller.submit(lambda image: Decision(len(image.topics)), lambda error: -1)
    assert answer.done
    assert disk.held == 0
    assert controller.image is image


def test_a_decision_sees_the_result_of_the_one_before(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    for name in ("a", "a", "b"):
        create(controller, name).add_done_callback(story.answered)
    assert disk.held == 1  # the others have not decided yet

    disk.release()
    assert story.lines == ["durable a", "published a", "a created"]
    disk.release()
    assert story.lines[3:] == ["durable b", "published b", "a exists", "b created"]
    assert (controller.image.offset, controller.image.epoch) == (39, 3)


def test_decisions_queued_during_a_flush_share_one_flush_but_no_batch(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    for name in ("a", "b", "c", "b"):
        create(controller, name).add_done_callback(story.answered)
    disk.release()
    disk.release()
    assert story.lines[3:] == ["durable b | c", "published b c", "b created", "c created", "b exists"]
    assert disk.held == 0


def test_decisions_that_follow_a_failed_write_are_made_again(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    for name in ("a", "b", "b", "c"):
        create(controller, name).add_done_callback(story.answered)
    disk.release()
    disk.fail(OSError("no space"))
    assert story.lines[3:] == ["b failed: no space", "c failed: no space"]
    disk.release()
    assert story.lines[5:] == ["durable b", "published b", "b created"]


def test_a_change_is_rejected_as_a_whole(controller: Controller, disk: HeldRunner) -> None:
    """By an ApiError of its decision, or because its records cannot be written."""

    def too_many(image: MetadataImage) -> Decision[str]:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "too many")

    def rejected(error: ApiError) -> str:
        return f"{error.code.name}: {error.message}"

    answers: list[str] = []
    controller.change("The topics", too_many, rejected).add_done_callback(answers.append)
    new = TopicRecord(name="a", topic_id=b"a" * 16)
    controller.change("The topics", lambda _: Decision("done", [new]), rejected).add_done_callback(
        answers.append
    )
    disk.fail(OSError("no space"))
    assert answers == [
        "POLICY_VIOLATION: too many",
        "KAFKA_STORAGE_ERROR: The topics could not be recorded: no space",
    ]


def test_a_bug_in_an_operation_fails_only_that_operation(
    controller: Controller, disk: HeldRunner, story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(image: MetadataImage) -> Decision[str]:
        return Decision(
            "wrong", [TopicRecord(name="w", topic_id=bytes(16)), RemoveTopicRecord(topic_id=b"?" * 16)]
        )

    create(controller, "a").add_done_callback(story.answered)
    create(controller, "b").add_done_callback(story.answered)
    controller.submit(wrong, lambda error: f"failed: {error}").add_done_callback(story.answered)
    create(controller, "c").add_done_callback(story.answered)
    disk.release_all()
    assert story.lines[3].startswith("failed: RemoveTopicRecord names topic id")
    assert story.lines[4:] == ["durable b | c", "published b c", "b created", "c created"]
    assert [*controller.image.topics] == ["a", "b", "c"]
    assert "a bug" in caplog.text


def test_a_decision_that_the_disk_rejected_has_no_effect(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    create(controller, "a").add_done_callback(story.answered)
    create(controller, "a").add_done_callback(story.answered)

    disk.fail(OSError("no space"))
    assert story.lines == ["a failed: no space"]
    assert controller.image.topics == {}

    disk.release()  # the second is decided again, on an image without the first
    assert story.lines[1:] == ["durable a", "published a", "a created"]


def test_oversized_records_fail_only_their_operation(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    """Operations that were to be written with them are decided again, one by one."""
    for name in ("a", "b", "large", "b", "c"):
        create(controller, name).add_done_callback(story.answered)
    disk.release()
    disk.fail(RecordBatchTooLargeError("too large"))
    disk.release()
    disk.fail(RecordBatchTooLargeError("too large"))
    create(controller, "d").add_done_callback(story.answered)
    create(controller, "e").add_done_callback(story.answered)
    disk.release_all()
    assert story.lines[3:] == [
        "durable b", "published b", "b created",
        "large failed: too large", "b exists",
        "durable c", "published c", "c created",
        "durable d | e", "published d e", "d created", "e created",
    ]  # fmt: skip


def test_a_response_may_trigger_the_next_change(
    controller: Controller, disk: HeldRunner, story: Story
) -> None:
    create(controller, "a").add_done_callback(
        lambda _: create(controller, "b").add_done_callback(story.answered)
    )
    create(controller, "c").add_done_callback(story.answered)
    disk.release_all()
    assert story.lines == [
        "durable a", "published a",
        "durable c | b", "published b c", "c created", "b created",
    ]  # fmt: skip


def test_with_a_synchronous_disk_everything_happens_at_once(story: Story) -> None:
    controller = controller_of(story, InlineRunner())
    create(controller, "a").add_done_callback(story.answered)
    create(controller, "a").add_done_callback(story.answered)
    assert story.lines == ["durable a", "published a", "a created", "a exists"]


# ---- preparation of an image before it is published


class Prepared(Story):
    """A publisher whose new topics need work on the disk first."""

    def prepare(self, image: MetadataImage, delta: MetadataDelta) -> Work | None:
        names = " ".join(sorted(delta.created_topics))
        return None if names == "easy" else lambda: self.lines.append(f"prepared {names}")


@pytest.fixture
def prepared() -> Prepared:
    return Prepared()


def test_blocking_preparation_completes_before_the_image_is_published(
    prepared: Prepared, disk: HeldRunner
) -> None:
    controller = controller_of(prepared, disk, prepared.prepare)
    create(controller, "a").add_done_callback(prepared.answered)
    create(controller, "b").add_done_callback(prepared.answered)
    disk.release()
    assert prepared.lines == ["durable a"]
    assert (controller.image.topics, disk.held) == ({}, 1)

    disk.release()
    assert prepared.lines == ["durable a", "prepared a", "published a", "a created"]
    disk.release_all()
    assert prepared.lines[4:] == ["durable b", "prepared b", "published b", "b created"]


def test_without_blocking_preparation_nothing_waits(prepared: Prepared, disk: HeldRunner) -> None:
    controller = controller_of(prepared, disk, prepared.prepare)
    create(controller, "easy").add_done_callback(prepared.answered)
    disk.release()
    assert prepared.lines == ["durable easy", "published easy", "easy created"]


def test_a_durable_image_is_published_even_if_its_preparation_fails(
    prepared: Prepared, disk: HeldRunner, caplog: pytest.LogCaptureFixture
) -> None:
    controller = controller_of(prepared, disk, prepared.prepare)
    create(controller, "a").add_done_callback(prepared.answered)
    disk.release()
    disk.fail(OSError("no room"))
    assert prepared.lines == ["durable a", "published a", "a created"]
    assert "no room" in caplog.text
