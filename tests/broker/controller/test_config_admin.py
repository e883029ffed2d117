"""ConfigAdmin: the rules of altering configurations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.controller import config_admin
from barnabas.broker.controller.config_admin import (
    CLUSTER_DEFAULT,
    ConfigAdmin,
    ConfigAlteration,
    KeyAlteration,
    Outcome,
)
from barnabas.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
)
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.config.alteration import AlterOperation
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.dynamic import apply_dynamic_settings
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import ConfigRecord, FeatureLevelRecord, TopicRecord
from barnabas.protocol.schema import Message

SET, DELETE, APPEND, SUBTRACT = AlterOperation
NODE_ID = 1
ME = (BROKER_RESOURCE, str(NODE_ID))
ALL = (BROKER_RESOURCE, CLUSTER_DEFAULT)
T = (TOPIC_RESOURCE, "t")
M = (CLIENT_METRICS_RESOURCE, "m")
G = (GROUP_RESOURCE, "g")

Changes = dict[str, str | None]


def image(*records: Message, elr: int = 0) -> MetadataImage:
    """Makes an image with a topic t from these records."""
    first: list[Message] = [TopicRecord(name="t", topic_id=b"t" * 16)]
    if elr:
        first.append(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=elr))
    return replayed(MetadataImage.empty(), [*first, *records])[0]


def stored(resource: ConfigResource, **settings: str) -> list[ConfigRecord]:
    return [
        ConfigRecord(
            resource_type=resource[0], resource_name=resource[1], name=key.replace("_", "."), value=value
        )
        for key, value in settings.items()
    ]


def decide(
    known: MetadataImage, *alterations: ConfigAlteration, config: BrokerConfig | None = None
) -> list[Outcome]:
    return ConfigAdmin(config or BrokerConfig.of(None), NODE_ID).decide(known, alterations)


def changes(known: MetadataImage, alteration: ConfigAlteration) -> Changes:
    """The accepted changes, by key."""
    (outcome,) = decide(known, alteration)
    assert not isinstance(outcome, ApiError), outcome.message
    assert {(record.resource_type, record.resource_name) for record in outcome} <= {alteration.resource}
    return {record.name: record.value for record in outcome}


def refused(known: MetadataImage, alteration: ConfigAlteration) -> ErrorCode:
    (outcome,) = decide(known, alteration)
    assert isinstance(outcome, ApiError), outcome
    assert outcome.message
    return outcome.code


def alteration(resource: ConfigResource, *keys: tuple[str, int, str | None]) -> ConfigAlteration:
    return ConfigAlteration(resource, [KeyAlteration(*key) for key in keys])


def whole(resource: ConfigResource, **settings: str) -> ConfigAlteration:
    values = [KeyAlteration(key.replace("_", "."), SET, value) for key, value in settings.items()]
    return ConfigAlteration(resource, values, replaces=True)


# ---- written records


def test_only_changed_values_are_written() -> None:
    known = image(*stored(T, retention_ms="5", segment_ms="6"))
    wanted = alteration(T, ("retention.ms", SET, "5"), ("segment.ms", SET, "7"), ("flush.ms", DELETE, None))
    assert changes(known, wanted) == {"segment.ms": "7"}


def test_a_broker_config_is_written_again_even_if_unchanged() -> None:
    known = image(*stored(ME, message_max_bytes="5"))
    assert changes(known, alteration(ME, ("message.max.bytes", SET, "5"))) == {"message.max.bytes": "5"}


def test_keys_left_out_of_a_full_replacement_are_removed() -> None:
    known = image(*stored(T, retention_ms="5", segment_ms="6"))
    assert changes(known, whole(T, retention_ms="5", flush_ms="1")) == {"flush.ms": "1", "segment.ms": None}
    assert changes(known, whole(T)) == {"retention.ms": None, "segment.ms": None}


def test_lists_begin_with_the_default_of_the_key() -> None:
    assert changes(image(), alteration(T, ("cleanup.policy", APPEND, "compact"))) == {
        "cleanup.policy": "delete,compact"
    }
    assert changes(image(), alteration(ME, ("log.cleanup.policy", SUBTRACT, "delete"))) == {
        "log.cleanup.policy": ""
    }


OPERATIONS = st.lists(
    st.tuples(st.sampled_from([SET, DELETE, APPEND, SUBTRACT]), st.sampled_from(["delete", "compact"])),
    max_size=8,
)


@settings(deadline=None)
@given(OPERATIONS)
def test_one_operation_after_the_other_follows_a_model(operations: list[tuple[AlterOperation, str]]) -> None:
    known, model = image(), None
    for operation, word in operations:
        value = None if operation is DELETE else word
        granted = changes(known, alteration(T, ("cleanup.policy", operation, value)))
        known, _ = replayed(known, stored_as(granted))
        words = ["delete"] if model is None else model
        if operation is SET:
            model = [word]
        elif operation is DELETE:
            model = None
        elif operation is APPEND:
            model = words if word in words else [*words, word]
        else:
            model = [other for other in words if other != word]
        assert known.topic_config("t").get("cleanup.policy") == (None if model is None else ",".join(model))


def stored_as(granted: Changes) -> list[ConfigRecord]:
    kind, name = T
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in granted.items()
    ]


# ---- rejected changes

INVALID, BAD_VALUE = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (alteration(T, ("a", SET, "1"), ("a", SET, "1")), INVALID),
        (alteration(T, ("retention.ms", SET, None)), INVALID),
        (alteration(T, ("cleanup.policy", APPEND, None)), INVALID),
        (alteration(T, ("retention.ms", 7, "1")), INVALID),
        (alteration(T, ("retention.ms", APPEND, "1")), BAD_VALUE),
        (alteration(T, ("nope", SET, "1")), BAD_VALUE),
        (alteration(T, ("retention.ms", SET, "x")), BAD_VALUE),
        (alteration(T, ("cleanup.policy", APPEND, "")), BAD_VALUE),
        (alteration(T, ("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")), BAD_VALUE),
        (alteration(T, ("remote.storage.enable", SET, "true")), BAD_VALUE),
        (alteration((TOPIC_RESOURCE, "u"), ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (alteration((TOPIC_RESOURCE, "u"), ("nope", SET, "1")), BAD_VALUE),
        (alteration((TOPIC_RESOURCE, "u")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (alteration((TOPIC_RESOURCE, "a b"), ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (alteration((TOPIC_RESOURCE, ""), ("retention.ms", SET, "1")), INVALID),
        (alteration((BROKER_RESOURCE, "2"), ("message.max.bytes", SET, "1")), INVALID),
        (alteration((BROKER_RESOURCE, "x"), ("message.max.bytes", SET, "1")), INVALID),
        (alteration((BROKER_RESOURCE, " 1"), ("message.max.bytes", SET, "1")), INVALID),
        (alteration((BROKER_RESOURCE, "01"), ("message.max.bytes", SET, "1")), INVALID),
        (alteration(ME, ("message.max.bytes", SET, "x")), INVALID),
        (alteration(ME, ("message.max.bytes", APPEND, "1")), BAD_VALUE),
        (alteration(ME, ("nope", APPEND, "1")), BAD_VALUE),
        (alteration(ME, ("num.partitions", SET, "2")), INVALID),
        (alteration(ME, ("log.cleaner.dedupe.buffer.size", SET, "1")), INVALID),
        (alteration(ALL, ("listeners", SET, "A://:1")), INVALID),
        (alteration((CLIENT_METRICS_RESOURCE, ""), ("metrics", SET, "a")), INVALID),
        (alteration(M, ("nope", SET, "a")), INVALID),
        (alteration(M, ("interval.ms", SET, "5")), INVALID),
        (alteration(M, ("interval.ms", SET, "x")), BAD_VALUE),
        (alteration(M, ("match", SET, "x")), BAD_VALUE),
        (alteration(M, ("metrics", APPEND, "a")), BAD_VALUE),
        (alteration((GROUP_RESOURCE, ""), ("share.isolation.level", SET, "read_committed")), INVALID),
        (alteration(G, ("nope", SET, "a")), BAD_VALUE),
        (alteration(G, ("consumer.session.timeout.ms", SET, "5")), BAD_VALUE),
        (alteration((BROKER_LOGGER_RESOURCE, "1"), ("root", SET, "INFO")), INVALID),
        (alteration((0, "x"), ("a", SET, "1")), INVALID),
        (whole((99, "x")), INVALID),
    ],
)
def test_rejected_changes(wanted: ConfigAlteration, code: ErrorCode) -> None:
    assert refused(image(), wanted) is code


def test_a_resource_named_twice_fails_and_the_others_succeed() -> None:
    one, other = alteration(T, ("retention.ms", SET, "1")), alteration(M, ("metrics", SET, "a"))
    first, second, third = decide(image(), one, other, one)
    assert isinstance(first, ApiError)
    assert isinstance(second, list)
    assert isinstance(third, ApiError)


def test_topic_configs_must_be_consistent_with_those_of_the_broker() -> None:
    broker = BrokerConfig.of(None)
    assert apply_dynamic_settings(broker, {"log.cleaner.max.compaction.lag.ms": "10"}, {}) == []
    (outcome,) = decide(image(), alteration(T, ("min.compaction.lag.ms", SET, "11")), config=broker)
    assert isinstance(outcome, ApiError)
    assert outcome.code is BAD_VALUE


def test_invalid_stored_configs_do_not_block_changes() -> None:
    known = image(*stored(ME, log_cleaner_threads="x"), *stored(ALL, num_partitions="5"))
    assert changes(known, alteration(ME, ("message.max.bytes", SET, "5"))) == {"message.max.bytes": "5"}
    assert changes(known, alteration(ME, ("log.cleaner.threads", DELETE, None))) == {
        "log.cleaner.threads": None
    }


def test_one_request_stays_one_batch_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_admin, "MAX_RECORDS_PER_USER_OP", 2)
    two = alteration(T, ("retention.ms", SET, "1"), ("segment.ms", SET, "1"))
    assert isinstance(decide(image(), two)[0], list)
    outcomes = decide(image(), two, alteration(M, ("metrics", SET, "a")), alteration(G, ("nope", SET, "a")))
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, ApiError)]
    assert codes == [ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION, BAD_VALUE]


# ---- min.insync.replicas with ELR


@pytest.mark.parametrize(
    ("wanted", "is_granted"),
    [
        (alteration(ME, ("min.insync.replicas", SET, "2")), False),
        (alteration(ME, ("min.insync.replicas", DELETE, None)), False),
        (alteration(ALL, ("min.insync.replicas", SET, "2")), True),
        (alteration(ALL, ("min.insync.replicas", DELETE, None)), False),
        (whole(ALL), False),
        (whole(ALL, min_insync_replicas="1"), True),
        (alteration(T, ("min.insync.replicas", SET, "2")), True),
        (alteration(T, ("min.insync.replicas", DELETE, None)), True),
    ],
)
def test_with_elr_only_the_cluster_has_min_insync_replicas(
    wanted: ConfigAlteration, is_granted: bool
) -> None:
    settings = stored(ALL, min_insync_replicas="1")
    outcomes = decide(image(*settings, elr=1), wanted) + decide(image(*settings), wanted)
    assert isinstance(outcomes[0], list) is is_granted
    assert isinstance(outcomes[1], list)
