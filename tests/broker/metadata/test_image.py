"""The image is the replay of records, and its own records replay to the same image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage
from barnabas.protocol.messages.cluster_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    DelegationTokenRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.messages.topic_records import (
    BeginTransactionRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

A, B = b"a" * 16, b"b" * 16


def topic(name: str, topic_id: Uuid, partition_count: int = 1) -> list[Message]:
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=[1, 2],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[A, B],
        )
        for index in range(partition_count)
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *partitions]


def config(name: str, key: str, value: str | None, resource_type: int = TOPIC_RESOURCE) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


def replay(*batches: Sequence[Message]) -> tuple[MetadataImage, MetadataDelta]:
    """The image after all of `batches`, and the delta of the last."""
    image, delta = MetadataImage.empty(), MetadataDelta()
    for batch in batches:
        image, delta = replayed(image, batch)
    return image, delta


def seen(partition: PartitionImage) -> tuple[object, ...]:
    return (
        partition.partition,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.directories,
        *partition_extras(partition),
    )


def partition_extras(partition: PartitionImage) -> tuple[object, ...]:
    """The non-default fields of a partition."""
    extras = (
        partition.removing_replicas,
        partition.adding_replicas,
        partition.leader_recovery_state,
        partition.elr,
        partition.last_known_elr,
    )
    return () if extras == ((), (), 0, (), ()) else extras


def contents(image: MetadataImage) -> object:
    """The contents of an image, in a form for comparison."""
    return (
        {
            name: (topic.name, topic.topic_id, {index: seen(p) for index, p in topic.partitions.items()})
            for name, topic in image.topics.items()
        },
        dict(image.topic_names),
        {resource: dict(entries) for resource, entries in image.configs.items()},
        {entity: dict(limits) for entity, limits in image.quotas.items()},
        [dict(part) for part in (image.features, image.brokers, image.controllers)],
        [
            {key: repr(record) for key, record in part.items()}
            for part in (image.acls, image.scram, image.tokens)
        ],
        image.next_producer_id,
    )


def test_a_topic_comes_with_its_partitions_and_settings() -> None:
    image, delta = replay([*topic("t", A, 2), config("t", "retention.ms", "1000")])
    assert [*image.topics["t"].partitions] == [0, 1]
    assert seen(image.topics["t"].partitions[1]) == (1, (1, 2), (1,), 1, 0, 0, (A, B))
    assert image.topic_by_id(A) is image.topics["t"]
    assert image.topic_by_id(B) is None
    assert image.topic_config("t") == {"retention.ms": "1000"}
    assert image.topic_config("other") == {}
    assert image.partition_count() == 2
    assert (delta.created_topics, delta.changed_topics, delta.deleted_topics) == ({"t"}, {}, {})
    assert delta.config_changes == {(TOPIC_RESOURCE, "t")}


def test_a_new_image_does_not_change_the_old_one() -> None:
    before, _ = replay(topic("t", A))
    was = contents(before)
    after, _ = replayed(
        before,
        [
            PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1, 2]),
            *topic("u", B),
            config("t", "a", "b"),
            RemoveTopicRecord(topic_id=B),
            ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        ],
    )
    assert contents(before) == was
    assert contents(after) != was
    with pytest.raises(TypeError):
        after.topics["x"] = after.topics["t"]  # type: ignore[index]  # the image is immutable


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    image, delta = replay(topic("t", A), [PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1, 2])])
    assert seen(image.topics["t"].partitions[0]) == (0, (1, 2), (1, 2), 1, 0, 1, (A, B))
    assert (delta.created_topics, delta.changed_topics) == (set(), {"t": {0}})


def test_a_change_that_names_a_leader_bumps_the_epoch_even_for_the_same_one() -> None:
    change = PartitionChangeRecord(
        partition_id=0, topic_id=A, leader=NO_LEADER, replicas=[2], directories=[B], isr=[]
    )
    image, _ = replay(topic("t", A), [change])
    assert seen(image.topics["t"].partitions[0]) == (0, (2,), (), NO_LEADER, 1, 1, (B,))
    image, _ = replayed(image, [PartitionChangeRecord(partition_id=0, topic_id=A, leader=NO_LEADER)])
    assert image.topics["t"].partitions[0].leader_epoch == 2


def test_a_partition_may_be_added_later() -> None:
    image, delta = replay(topic("t", A), topic("t", A, 2)[2:])
    assert [*image.topics["t"].partitions] == [0, 1]
    assert delta.changed_topics == {"t": {1}}


def test_a_removed_topic_loses_its_settings_and_is_in_the_delta_with_its_id() -> None:
    image, delta = replay([*topic("t", A), config("t", "a", "b")], [RemoveTopicRecord(topic_id=A)])
    assert contents(image) == contents(MetadataImage.empty())
    assert {topic_id: gone.name for topic_id, gone in delta.deleted_topics.items()} == {A: "t"}
    assert delta.changed_topics == {}


def test_a_name_may_return_with_another_id_in_the_same_batch() -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1, 2])
    image, delta = replay(topic("t", A), [change, RemoveTopicRecord(topic_id=A), *topic("t", B)])
    assert image.topics["t"].topic_id == B
    assert dict(image.topic_names) == {B: "t"}
    assert (delta.created_topics, delta.changed_topics, [*delta.deleted_topics]) == ({"t"}, {}, [A])


def test_a_topic_created_and_removed_in_one_batch_is_not_in_the_delta() -> None:
    _, delta = replay([*topic("t", A), RemoveTopicRecord(topic_id=A)])
    assert (delta.created_topics, delta.deleted_topics) == (set(), {})


def test_a_setting_without_a_value_is_unset() -> None:
    image, _ = replay([config("t", "a", "1"), config("t", "b", "2")], [config("t", "a", None)])
    assert image.topic_config("t") == {"b": "2"}
    image, _ = replayed(image, [config("t", "b", None), config("t", "never", None)])
    assert image.configs == {}


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (TopicRecord(name="t", topic_id=B), "created twice"),
        (TopicRecord(name="u", topic_id=A), "created twice"),
        (PartitionRecord(partition_id=0, topic_id=B), "PartitionRecord names topic id"),
        (PartitionChangeRecord(partition_id=0, topic_id=B), "PartitionChangeRecord names topic id"),
        (PartitionChangeRecord(partition_id=7, topic_id=A), "partition t-7"),
        (RemoveTopicRecord(topic_id=B), "RemoveTopicRecord names topic id"),
        (BeginTransactionRecord(), "BeginTransactionRecord is not known"),
        (ClearElrRecord(topic_name="u"), "'u', which does not exist"),
        (RemoveAccessControlEntryRecord(id=A), "which does not exist"),
        (RemoveUserScramCredentialRecord(name="u", mechanism=1), "'u', which does not exist"),
        (
            UnregisterBrokerRecord(broker_id=7, broker_epoch=1),
            "broker 7 with epoch 1, which is not registered",
        ),
        (FenceBrokerRecord(id=7, epoch=1), "is not registered"),
        (UnfenceBrokerRecord(id=7, epoch=1), "is not registered"),
        (BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=1), "is not registered"),
    ],
)
def test_an_inapplicable_record_is_an_error(record: Message, complaint: str) -> None:
    image, _ = replay(topic("t", A))
    with pytest.raises(ValueError, match=complaint):
        replayed(image, [record])


def test_a_record_without_changes_changes_nothing() -> None:
    image, _ = replay(topic("t", A))
    after, delta = replayed(
        image, [NoOpRecord(), ZkMigrationStateRecord(zk_migration_state=4)], offset=9, epoch=2
    )
    assert contents(after) == contents(image)
    assert (after.offset, after.epoch, delta.changed_topics) == (9, 2, {})
    assert after.topics is image.topics  # unchanged parts are shared


def test_reassignment_recovery_and_eligible_leaders_are_kept() -> None:
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=A,
        removing_replicas=[1],
        adding_replicas=[3],
        leader_recovery_state=1,
        eligible_leader_replicas=[2],
        last_known_elr=[4],
    )
    image, _ = replay(topic("t", A), [change])
    assert partition_extras(image.topics["t"].partitions[0]) == ((1,), (3,), 1, (2,), (4,))
    image, _ = replayed(image, [PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1])])
    assert partition_extras(image.topics["t"].partitions[0]) == ((1,), (3,), 1, (2,), (4,))
    for everywhere in ("", "t"):
        cleared, delta = replayed(image, [ClearElrRecord(topic_name=everywhere)])
        before, after = image.topics["t"].partitions[0], cleared.topics["t"].partitions[0]
        assert partition_extras(after) == ((1,), (3,), 1, (), ())
        assert (after.isr, after.leader, after.leader_epoch) == (
            before.isr,
            before.leader,
            before.leader_epoch,
        )
        assert after.partition_epoch == before.partition_epoch + 1
        assert delta.changed_topics == {"t": {0}}
    _, delta = replayed(cleared, [ClearElrRecord(topic_name="")])
    assert delta.changed_topics == {}


def registration(broker_id: int = 1, epoch: int = 5) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=A,
        broker_epoch=epoch,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0)
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack="r",
        fenced=True,
        log_dirs=[A],
    )


def test_a_broker_is_registered_unfenced_shut_down_and_unregistered() -> None:
    image, delta = replay([registration()])
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown, broker.rack) == (5, True, False, "r")
    assert broker.listeners["PLAINTEXT"] == ("here", 9092, 0)
    assert broker.features["metadata.version"] == (7, 30)
    assert delta.broker_changes == {1}

    image, _ = replayed(
        image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1, log_dirs=[B])]
    )
    assert (image.brokers[1].fenced, image.brokers[1].log_dirs) == (False, (B,))
    image, _ = replayed(
        image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1)]
    )
    assert (image.brokers[1].fenced, image.brokers[1].in_controlled_shutdown) == (False, True)
    assert image.brokers[1].log_dirs == (B,)
    image, _ = replayed(image, [FenceBrokerRecord(id=1, epoch=5)])
    assert image.brokers[1].fenced
    image, _ = replayed(image, [UnfenceBrokerRecord(id=1, epoch=5)])
    assert not image.brokers[1].fenced
    with pytest.raises(ValueError, match="epoch 4, which has epoch 5"):
        replayed(image, [FenceBrokerRecord(id=1, epoch=4)])
    image, delta = replayed(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=5)])
    assert (image.brokers, delta.broker_changes) == ({}, {1})


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[
            ClientQuotaRecord.EntityData(entity_type=entity_type.replace("_", "-"), entity_name=name)
            for entity_type, name in entity.items()
        ],
        key=key,
        value=value or 0.0,
        remove=value is None,
    )


def test_quotas_are_keyed_by_entity_whatever_the_order_of_its_parts() -> None:
    image, delta = replay(
        [
            quota("producer_byte_rate", 5.0, user="u", client_id=None),
            quota("consumer_byte_rate", 6.0, client_id=None, user="u"),
            quota("producer_byte_rate", 7.0, user=None),
        ]
    )
    both = (("client-id", None), ("user", "u"))
    assert image.quotas[both] == {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    assert image.quotas[(("user", None),)] == {"producer_byte_rate": 7.0}
    assert delta.quota_changes == {both, (("user", None),)}
    image, _ = replayed(image, [quota("producer_byte_rate", None, user=None)])
    assert [*image.quotas] == [both]


def security() -> list[Message]:
    return [
        AccessControlEntryRecord(id=A, resource_type=2, resource_name="t", principal="User:u", host="*"),
        UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        DelegationTokenRecord(owner="User:u", requester="User:u", renewers=[], token_id="t"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        RegisterControllerRecord(controller_id=1, incarnation_id=B),
        quota("request_percentage", 50.5, user="u"),
        registration(),
    ]


def test_added_entries_can_be_removed() -> None:
    image, delta = replay(security())
    assert (delta.acl_changes, delta.scram_changes, delta.token_changes) == ({A}, {("u", 1)}, {"t"})
    assert delta.feature_changes == {"metadata.version", "group.version"}
    assert image.metadata_version == 30
    image, delta = replayed(
        image,
        [
            RemoveAccessControlEntryRecord(id=A),
            RemoveUserScramCredentialRecord(name="u", mechanism=1),
            RemoveDelegationTokenRecord(token_id="t"),
            FeatureLevelRecord(name="group.version", feature_level=0),
        ],
    )
    assert (delta.acl_changes, delta.scram_changes, delta.token_changes) == ({A}, {("u", 1)}, {"t"})
    assert (image.acls, image.scram, image.tokens) == ({}, {}, {})
    assert image.features == {"metadata.version": 30}


def test_a_snapshot_begins_with_the_metadata_version() -> None:
    image, _ = replay([*topic("t", A), *security()])
    kinds = [type(record).__name__ for record in image.records()]
    first, *_ = image.records()
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == "metadata.version"
    assert kinds == [
        "FeatureLevelRecord", "FeatureLevelRecord", "RegisterBrokerRecord", "RegisterControllerRecord",
        "TopicRecord", "PartitionRecord", "ClientQuotaRecord", "AccessControlEntryRecord",
        "UserScramCredentialRecord", "DelegationTokenRecord",
    ]  # fmt: skip
    again, _ = replayed(MetadataImage.empty(), image.records())
    assert contents(again) == contents(image)


def test_the_delta_of_everything_names_everything() -> None:
    image, _ = replay([*topic("t", A), config("t", "a", "b"), *security()])
    delta = MetadataDelta.everything(image)
    assert delta.created_topics == {"t"}
    assert delta.config_changes == {(TOPIC_RESOURCE, "t")}
    assert (delta.broker_changes, delta.acl_changes, delta.scram_changes) == ({1}, {A}, {("u", 1)})
    assert delta.token_changes == {"t"}
    assert [*delta.partitions_of(image.topics["t"])] == [*image.topics["t"].partitions.values()]


def test_the_delta_has_the_partitions_that_changed() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=A, isr=[1, 2])
    image, delta = replay(topic("t", A, 3), [change])
    assert [*delta.partitions_of(image.topics["t"])] == [image.topics["t"].partitions[1]]


# ---- replay of an image's own records

names = st.sampled_from(["a", "b", "c"])
nodes = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Message]]:
    """Batches of records that apply to the image before them."""
    image = MetadataImage.empty()
    batches = []
    next_id = 1
    for _ in range(draw(st.integers(0, 12))):
        batch: list[Message] = []
        match draw(st.sampled_from(["create", "remove", "change", "config", "producer ids"])):
            case "create":
                name = draw(names)
                if name not in image.topics:
                    batch = topic(name, next_id.to_bytes(16, "big"), draw(st.integers(1, 3)))
                    next_id += 1
            case "remove" if image.topics:
                chosen = image.topics[draw(st.sampled_from(sorted(image.topics)))]
                batch = [RemoveTopicRecord(topic_id=chosen.topic_id)]
            case "change" if image.topics:
                chosen = image.topics[draw(st.sampled_from(sorted(image.topics)))]
                batch = [
                    PartitionChangeRecord(
                        partition_id=draw(st.sampled_from([*chosen.partitions])),
                        topic_id=chosen.topic_id,
                        isr=draw(st.none() | nodes),
                        leader=draw(st.sampled_from([-2, -1, 1, 2])),
                        replicas=draw(st.none() | nodes),
                    )
                ]
            case "config":
                value = draw(st.none() | st.sampled_from(["1", "2"]))
                batch = [
                    config(
                        draw(names), "key", value, draw(st.sampled_from([TOPIC_RESOURCE, BROKER_RESOURCE]))
                    )
                ]
            case "producer ids":
                batch = [ProducerIdsRecord(broker_id=1, next_producer_id=draw(st.integers(1, 10**6)))]
        image, _ = replayed(image, batch)
        batches.append(batch)
    return batches


@given(histories())
def test_the_records_of_an_image_replay_to_an_equal_image(history: Sequence[Sequence[Message]]) -> None:
    image, _ = replay(*history)
    again, _ = replayed(MetadataImage.empty(), image.records())
    assert contents(again) == contents(image)


@given(histories())
def test_the_split_into_batches_does_not_matter(history: Sequence[Sequence[Message]]) -> None:
    def flat() -> Iterable[Message]:
        return (record for batch in history for record in batch)

    assert contents(replay(*history)[0]) == contents(replay([*flat()])[0])


@given(histories())
def test_the_deltas_name_exactly_what_differs(history: Sequence[Sequence[Message]]) -> None:
    image = MetadataImage.empty()
    for batch in history:
        before = {topic.topic_id: topic for topic in image.topics.values()}
        image, delta = replayed(image, batch)
        after = {topic.topic_id: topic for topic in image.topics.values()}
        assert set(delta.deleted_topics) == set(before) - set(after)
        assert delta.created_topics == {after[key].name for key in set(after) - set(before)}
        changed = {after[key].name for key in set(after) & set(before) if after[key] is not before[key]}
        assert set(delta.changed_topics) == changed
