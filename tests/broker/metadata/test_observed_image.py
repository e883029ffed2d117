"""ObservedImage: catching up, one image after the other, and snapshots in place of the log."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.observed_image import ObservedImage
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.protocol.messages.topic_records import FeatureLevelRecord, PartitionRecord
from barnabas.storage.errors import StorageError
from tests.broker.held_runner import HeldRunner
from tests.broker.metadata.raft_logs import config, configs, new_env
from tests.broker.metadata.test_observer_raft_log import batch, install, opened, setting, snapshot

VERSION = FeatureLevelRecord(name="metadata.version", feature_level=30)


class Publisher:
    """An ObservedImage over a log whose leader is the test."""

    def __init__(self, log: ObserverRaftLog | None = None) -> None:
        self.log = log or opened(new_env())
        self.runner = HeldRunner()
        self.stated: int | None = None
        self.published: list[tuple[MetadataImage, MetadataDelta, Callable[[], None]]] = []
        self.failures: list[str] = []
        self.image = ObservedImage(
            self.log.raft,
            self.runner,
            lambda: self.stated,
            lambda *arguments: self.published.append(arguments),
            self.failures.append,
        )

    def fetched(self, *batches: bytes, stated: int | None = None) -> None:
        """The leader's batches, all of them committed, with the high watermark that it states."""
        for data in batches:
            self.log.append(data, 9)
        self.log.update_high_watermark(self.log.end_offset)
        self.stated = self.log.end_offset if stated is None else stated
        self.image.progressed()

    def finish(self) -> None:
        """The publishers have applied the newest image."""
        self.published[-1][2]()


def caught_up() -> Publisher:
    publisher = Publisher()
    publisher.fetched(batch(0, 1, VERSION), setting(1, 1))
    publisher.runner.release_all()
    publisher.finish()
    assert publisher.image.published.offset == 1
    assert publisher.image.published_timestamp_ms == 1
    return publisher


def test_nothing_is_published_before_the_image_has_what_the_leader_has_committed() -> None:
    publisher = Publisher()
    publisher.image.progressed()
    publisher.runner.release_all()
    assert publisher.published == []
    publisher.fetched(batch(0, 1, VERSION), stated=3)
    publisher.runner.release_all()
    assert publisher.image.image.offset == 0
    assert publisher.published == []
    publisher.fetched(setting(1, 1), setting(2, 1))
    publisher.runner.release_all()
    ((image, delta, _),) = publisher.published
    assert publisher.image.is_caught_up
    assert image.offset == 2
    assert delta.feature_changes == {"metadata.version"}, "the first delta is everything"
    assert delta.config_changes == {(4, "")}


def test_a_leader_without_a_single_record_is_not_caught_up_with() -> None:
    publisher = Publisher()
    publisher.fetched(stated=0)
    publisher.runner.release_all()
    assert publisher.published == []


def test_images_are_published_one_after_the_other() -> None:
    publisher = caught_up()
    publisher.fetched(setting(2, 1))
    publisher.runner.release_all()
    publisher.fetched(setting(3, 1))
    publisher.fetched(setting(4, 1))
    assert publisher.runner.held == 0, "the publishers are still busy"
    assert [image.offset for image, _, _ in publisher.published] == [1, 2]
    assert publisher.image.published.offset == 1
    publisher.finish()
    assert publisher.image.published.offset == 2
    publisher.runner.release_all()
    assert [image.offset for image, _, _ in publisher.published] == [1, 2, 4]
    assert len(configs(publisher.published[-1][0])) == 4


def test_without_news_nothing_is_published() -> None:
    publisher = caught_up()
    publisher.image.progressed()
    publisher.runner.release_all()
    assert len(publisher.published) == 1


def test_a_snapshot_is_published_as_the_difference() -> None:
    publisher = caught_up()
    install(publisher.log, *snapshot([VERSION, config("new", "1")], 10, 4))
    publisher.stated = 10
    publisher.image.replaced()
    publisher.runner.release_all()
    image, delta, _ = publisher.published[-1]
    assert (image.offset, configs(image)) == (9, {"new": "1"})
    assert delta.config_changes == {(4, "")}
    assert delta.feature_changes == set()
    publisher.finish()
    publisher.fetched(setting(10, 5))
    publisher.runner.release_all()
    assert publisher.published[-1][0].offset == 10
    assert publisher.image.loaded_snapshots == 1


def test_a_snapshot_that_comes_while_the_log_is_read_replaces_what_was_to_be_read() -> None:
    publisher = caught_up()
    publisher.fetched(setting(2, 1))
    install(publisher.log, *snapshot([VERSION, config("new", "1")], 10, 4))
    publisher.stated = 10
    publisher.runner.fail(StorageError("these records are not here any more"))
    publisher.runner.release_all()
    publisher.finish()
    publisher.image.replaced()
    publisher.runner.release_all()
    assert publisher.failures == []
    assert configs(publisher.published[-1][0]) == {"new": "1"}


def test_records_that_cannot_be_replayed_are_a_failure() -> None:
    publisher = caught_up()
    publisher.fetched(batch(2, 1, PartitionRecord(partition_id=0, topic_id=b"no such topic...")))
    publisher.runner.fail(ValueError("no such topic"))
    assert publisher.failures == ["the metadata cannot be replayed: no such topic"]
    assert publisher.image.load_errors == 1
    assert len(publisher.published) == 1
