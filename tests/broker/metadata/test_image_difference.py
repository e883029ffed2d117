"""difference: the delta between two images, of which a snapshot brought the second."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.image_difference import difference
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, RemoveTopicRecord
from barnabas.protocol.schema import Message
from tests.broker.metadata.test_image import A, B, config, contents, histories, replay, topic


def of_a_snapshot(image: MetadataImage) -> MetadataImage:
    """An equal image that shares nothing with `image`."""
    again, _ = replayed(MetadataImage.empty(), image.records())
    assert contents(again) == contents(image)
    return again


def names(delta: MetadataDelta) -> tuple[object, ...]:
    return (
        delta.created_topics,
        delta.changed_topics,
        set(delta.deleted_topics),
        delta.config_changes,
        delta.quota_changes,
        delta.scram_changes,
        delta.acl_changes,
        delta.token_changes,
        delta.feature_changes,
        delta.broker_changes,
    )


@given(histories())
def test_an_equal_image_has_no_difference(history: Sequence[Sequence[Message]]) -> None:
    image, _ = replay(*history)
    assert names(difference(image, of_a_snapshot(image))) == names(MetadataDelta())


@given(histories())
def test_from_nothing_it_is_everything(history: Sequence[Sequence[Message]]) -> None:
    image, _ = replay(*history)
    assert names(difference(MetadataImage.empty(), image)) == names(MetadataDelta.everything(image))


@given(histories(), st.data())
def test_it_names_what_the_replay_in_between_has_changed(
    history: Sequence[Sequence[Message]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    before, _ = replay(*history[:cut])
    after, delta = replayed(before, [record for batch in history[cut:] for record in batch])
    found = difference(before, of_a_snapshot(after))
    assert set(found.deleted_topics) == set(delta.deleted_topics)
    assert found.created_topics == delta.created_topics
    for name, indexes in found.changed_topics.items():
        assert indexes <= delta.changed_topics[name]
    assert found.config_changes <= delta.config_changes
    for resource in delta.config_changes - found.config_changes:
        assert before.configs.get(resource) == after.configs.get(resource)


def test_a_topic_that_was_replaced_is_deleted_and_created() -> None:
    before, _ = replay(topic("t", A))
    after, _ = replay(topic("t", A), [RemoveTopicRecord(topic_id=A)], topic("t", B))
    delta = difference(before, of_a_snapshot(after))
    assert list(delta.deleted_topics.values()) == [before.topics["t"]]
    assert delta.created_topics == {"t"}
    assert delta.changed_topics == {}


def test_a_changed_partition_and_a_new_one_are_named() -> None:
    before, _ = replay(topic("t", A, 2))
    change = PartitionChangeRecord(topic_id=A, partition_id=1, isr=[1, 2])
    after, _ = replay(topic("t", A, 3), [change])
    assert difference(before, of_a_snapshot(after)).changed_topics == {"t": {1, 2}}


def test_what_is_gone_is_named() -> None:
    before, _ = replay(topic("t", A), [config("t", "retention.ms", "1")])
    assert difference(before, MetadataImage.empty()).config_changes == {(2, "t")}
