"""TopicAnswers: cached entries equal fresh ones, and are replaced when the topic changes."""

from __future__ import annotations

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.cluster_answers import CacheKey
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topic_answers import KINDS_KEPT, TopicAnswers
from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.topic_records import ConfigRecord, RemoveTopicRecord
from barnabas.protocol.messages.topics import CreateTopicsResponse

Topic = MetadataResponse.MetadataResponseTopic
ALONE = CacheKey("", None)


def topic(name: str, partitions: int = 2) -> TopicImage:
    made = {
        index: PartitionImage(
            index, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0, directories=[b"d" * 16]
        )
        for index in range(partitions)
    }
    return TopicImage(name, name.encode().ljust(16, b"\0"), made)


class Maker:
    """Counts its calls."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, image: TopicImage) -> Topic:
        self.made.append(image.name)
        return Topic(
            error_code=0,
            name=image.name,
            partitions=[
                MetadataResponse.MetadataResponsePartition(partition_index=index, leader_id=1)
                for index in image.partitions
            ],
        )


def response(topics: object, version: int) -> bytes:
    return encode(MetadataResponse(topics=topics), version)  # type: ignore[arg-type]


def test_cached_entries_equal_fresh_ones() -> None:
    topics = {name: topic(name, count) for name, count in (("a", 1), ("b", 200), ("c", 0))}
    for version in range(14):
        answers, make = TopicAnswers(), Maker()
        expected = response([make(each) for each in topics.values()], version)
        for _ in range(2):
            assert (
                response(
                    answers.kept(version, ALONE, with_operations=False).everything(topics, make), version
                )
                == expected
            )
            one_by_one = [
                answers.kept(version, ALONE, with_operations=False).one(each, make)
                for each in topics.values()
            ]
            assert response(one_by_one, version) == expected
            mixed = [*one_by_one[:1], *(make(each) for each in list(topics.values())[1:])]
            assert response(mixed, version) == expected


def test_an_entry_is_cached_while_the_topic_is_unchanged() -> None:
    answers, make, it = TopicAnswers(), Maker(), topic("a")
    for _ in range(3):
        answers.kept(12, ALONE, with_operations=False).one(it, make)
        answers.kept(12, ALONE, with_operations=False).everything({"a": it}, make)
    assert make.made == ["a"]
    answers.kept(12, ALONE, with_operations=False).one(topic("a", 3), make)
    assert make.made == ["a", "a"]


def test_versions_and_operations_are_cached_separately() -> None:
    answers, make, it = TopicAnswers(), Maker(), topic("a")
    kinds = [(version, with_operations) for version in (8, 12) for with_operations in (False, True)]
    for version, with_operations in kinds * 2:
        answers.kept(version, ALONE, with_operations=with_operations).one(it, make)
    assert len(make.made) == len(kinds)


def test_entries_no_longer_requested_are_evicted() -> None:
    answers, make, it = TopicAnswers(), Maker(), topic("a")
    for version in range(KINDS_KEPT + 1):
        answers.kept(version, ALONE, with_operations=False).one(it, make)
    made = len(make.made)
    answers.kept(1, ALONE, with_operations=False).one(it, make)  # cached
    assert len(make.made) == made
    answers.kept(0, ALONE, with_operations=False).one(it, make)  # the oldest kind was evicted
    assert len(make.made) == made + 1


def test_entries_of_deleted_topics_are_removed() -> None:
    answers, make = TopicAnswers(), Maker()
    a, b = topic("a"), topic("b")
    answers.kept(12, ALONE, with_operations=False).everything({"a": a, "b": b}, make)
    answers.kept(12, ALONE, with_operations=False).everything({"b": b}, make)
    assert make.made == ["a", "b"]
    answers.kept(12, ALONE, with_operations=False).one(a, make)
    assert make.made == ["a", "b", "a"]


def test_configs_of_new_topics_are_cached_until_a_setting_changes() -> None:
    answers, image, made = TopicAnswers(), MetadataImage.empty(), 0

    def make() -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        nonlocal made
        made += 1
        return [
            CreateTopicsResponse.CreatableTopicConfigs(name=name, value=str(made), config_source=5)
            for name in ("a", "b")
        ]

    def told(image: MetadataImage, version: int) -> bytes:
        result = CreateTopicsResponse.CreatableTopicResult(
            name="t",
            error_message=None,
            configs=answers.default_configs(image, make, version),  # type: ignore[arg-type]
        )
        return encode(CreateTopicsResponse(topics=[result]), version)

    for version in (5, 7):
        first = told(image, version)
        assert told(image, version) == first
        values = [
            entry.value for entry in decode(CreateTopicsResponse, version, first).topics[0].configs or ()
        ]
        assert values == [str(made)] * 2
    assert made == 2
    setting = ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="1")
    told(replayed(image, [setting])[0], 7)
    assert made == 3


def test_deleted_topics_leave_nothing_in_the_cache() -> None:
    answers, make = TopicAnswers(), Maker()
    image, _ = replayed(MetadataImage.empty(), [*topic("going").records(), *topic("staying").records()])
    going, staying = image.topics["going"], image.topics["staying"]
    for version in (9, 12):
        for each in (going, staying):
            answers.kept(version, ALONE, with_operations=False).one(each, make)
    image, delta = replayed(image, [RemoveTopicRecord(topic_id=going.topic_id)])
    answers.apply(image, delta)
    make.made.clear()
    for version in (9, 12):
        for each in (going, staying):
            answers.kept(version, ALONE, with_operations=False).one(each, make)
    assert make.made == ["going", "going"]


def test_listeners_are_cached_separately() -> None:
    answers, make, it = TopicAnswers(listeners=2), Maker(), topic("a")
    for listener in ("INSIDE", "OUTSIDE") * 2:
        for version in range(KINDS_KEPT):
            answers.kept(version, CacheKey(listener, None), with_operations=False).one(it, make)
    assert len(make.made) == 2 * KINDS_KEPT


def test_a_change_of_the_brokers_drops_every_entry() -> None:
    answers, make, it = TopicAnswers(), Maker(), topic("a")
    before: dict[int, BrokerRegistration] = {}
    for brokers in (before, before, {}, before):
        answers.kept(12, CacheKey("", brokers), with_operations=False).one(it, make)
        answers.kept(12, CacheKey("", brokers), with_operations=False).everything({"a": it}, make)
    assert make.made == ["a"] * 3
