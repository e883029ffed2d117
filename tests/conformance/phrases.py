"""Requests that a broker rejects, each with the phrase of Apache Kafka's message by which tools recognize the error.

The rest of a message may be Barnabas's own. Phrases come from Kafka's own integration tests and tools (ClientQuotas-,
AlterUserScramCredentials- and CreateTopicsRequestTest, PlaintextAdminIntegrationTest, ConfigCommandIntegrationTest,
ConsumerProtocolMigrationTest), and from Kafka's responses to similar requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.protocol.messages.configs import AlterConfigsRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.schema import Message, Struct
from tests.conformance.dialogue_client import NO_ID, START_MS, DialogueClient, batch
from tests.conformance.dialogues import alter_configs, configs, members, migrations, quotas, scram, topics
from tests.conformance.dialogues.alter_configs import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    Op,
)
from tests.conformance.dialogues.consumers import Consumer
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.dialogues.partitions import creating, electing, more, moving
from tests.conformance.dialogues.words import produce

TEXTS: Final = frozenset({"error_message", "batch_index_error_message"})


class Phrase(NamedTuple):
    """`words` are part of an error message in the response of `request`; {t} in them is the topic that it creates."""

    words: str
    request: Callable[[DialogueClient], Message]


def messages_in(answer: Struct) -> Iterator[str]:
    """All error messages in a response."""
    for field in answer.fields:
        value = getattr(answer, field.name)
        if field.name in TEXTS and value:
            yield value
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                yield from messages_in(each)


def _sending(
    version: int, request: Callable[[DialogueClient], Message]
) -> Callable[[DialogueClient], Message]:
    return lambda client: client.connection.request(request(client), version)


def _made(client: DialogueClient) -> str:
    """The topic {t}, of two partitions."""
    return client.create("t", 2)


# ---- quotas and users


def _quota(words: str, parts: quotas.Parts, key: str = "producer_byte_rate", value: float = 10.0) -> Phrase:
    request = quotas.alter((parts, {key: value}), validate_only=True)
    return Phrase(words, _sending(1, lambda _: request))


def _filter(words: str, *components: tuple[str, int] | tuple[str, int, str | None]) -> Phrase:
    return Phrase(words, _sending(1, lambda _: quotas.describe(*components)))


USER, CLIENT, ADDRESS = ("user", "u"), ("client-id", "c"), ("ip", "10.9.8.7")
RATE = "connection_creation_rate"

QUOTAS: Final = (
    _quota("Invalid quota entity combination", [USER, ADDRESS]),
    _quota("Invalid quota entity combination", [CLIENT, ADDRESS]),
    _quota(
        "no host of this name is not a valid IP or resolvable host", [("ip", "no host of this name")], RATE
    ),
    _quota("Empty user not supported", [("user", "")]),
    _quota("Empty client-id not supported", [("client-id", "")]),
    _quota("Invalid empty client quota entity", []),
    _quota("Unhandled client quota entity type: group", [("group", "g")]),
    _quota("Invalid configuration key nope", [USER], "nope"),
    _quota("Invalid configuration key producer_byte_rate", [ADDRESS]),
    _quota("Quota producer_byte_rate must be greater than 0", [USER], value=-1.0),
    _quota("producer_byte_rate cannot be a fractional value", [USER], value=1.5),
    _quota("Proposed value for producer_byte_rate is too large for a LONG", [USER], value=1e19),
    _quota("Proposed value for connection_creation_rate is too large for an INT", [ADDRESS], RATE, 2.0**31),
    _filter(
        "Invalid entity filter component combination", ("ip", quotas.SPECIFIED), ("user", quotas.SPECIFIED)
    ),
    _filter(
        "Invalid entity filter component combination",
        ("ip", quotas.SPECIFIED),
        ("client-id", quotas.SPECIFIED),
    ),
    _filter("Unsupported entity type group", ("group", quotas.SPECIFIED)),
    _filter("Invalid empty entity type", ("", quotas.SPECIFIED)),
    _filter(
        "Entity type user cannot appear more than once in the filter",
        ("user", quotas.SPECIFIED),
        ("user", quotas.DEFAULT),
    ),
    _filter("MATCH_TYPE_EXACT, but set match string to null", ("user", quotas.EXACT, None)),
    _filter("MATCH_TYPE_DEFAULT, but also specified a match string", ("user", quotas.DEFAULT, "u")),
    _filter("Unknown match type 3", ("user", 3)),
)


def _scram(words: str, *upsertions: scram.Upsert, deletions: tuple[tuple[str, int], ...] = ()) -> Phrase:
    return Phrase(words, _sending(0, lambda _: scram.alter(*upsertions, deletions=deletions)))


USERS: Final = (
    _scram("Username must not be empty", ("", 1, 4096)),
    _scram("Unknown SCRAM mechanism", ("phrases-u", 9, 4096)),
    _scram("Too few iterations", ("phrases-u", 1, 4095)),
    _scram("Too many iterations", ("phrases-u", 1, 16385)),
    _scram("Attempt to delete a user credential that does not exist", deletions=(("phrases-u", 1),)),
    _scram(
        "A user credential cannot be altered twice in the same request",
        ("phrases-u", 1, 4096),
        ("phrases-u", 2, 4096),
    ),
    Phrase(
        "Attempt to describe a user credential that does not exist: phrases-u",
        _sending(0, lambda _: scram.describe("phrases-u")),
    ),
    Phrase(
        "Cannot describe SCRAM credentials for the same user twice in a single request: phrases-u",
        _sending(0, lambda _: scram.describe("phrases-u", "phrases-u")),
    ),
)

# ---- topics and partitions


def _topic(
    words: str,
    count: int = 1,
    replicas: int = 1,
    assignments: Mapping[int, list[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> Phrase:
    """A topic t that cannot be created."""
    return Phrase(
        words,
        _sending(
            7,
            lambda client: topics.create(
                topics.wish(client.topic("t"), count, replicas, assignments, configs)
            ),
        ),
    )


def _named(words: str, name: str) -> Phrase:
    return Phrase(words, _sending(7, lambda _: topics.create(topics.wish(name))))


def _grow(words: str, count: int, assignments: list[list[int]] | None = None) -> Phrase:
    return Phrase(words, _sending(3, lambda client: creating(more(_made(client), count, assignments))))


def _delete(words: str, *wanted: tuple[str | None, bytes]) -> Phrase:
    states = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in wanted]
    return Phrase(words, _sending(6, lambda _: DeleteTopicsRequest(topics=states, timeout_ms=10_000)))


ZERO: Final = bytes(16)

TOPICS: Final = (
    Phrase(
        "Topic '{t}' already exists", _sending(7, lambda client: topics.create(topics.wish(_made(client))))
    ),
    Phrase(
        "Duplicate topic name",
        _sending(7, lambda client: topics.create(*[topics.wish(client.topic("t"))] * 2)),
    ),
    _named("Topic name is invalid: '.' is not allowed", "."),
    _named("Topic name is invalid: the empty string is not allowed", ""),
    _named("contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", "a b"),
    _named("is longer than the max allowed length 249", "x" * 250),
    _named("Creation of internal topic __cluster_metadata is prohibited", "__cluster_metadata"),
    _topic("Number of partitions was set to an invalid non-positive value", 0),
    _topic("Replication factor must be larger than 0, or -1 to use the default value", 1, 0),
    _topic(
        "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered", 1, 2
    ),
    _topic("Excessively large number of partitions per request", 10_001),
    _topic("but replication factor was not set to -1", -1, 1, {0: [1]}),
    _topic("but numPartitions was not set to -1", 1, -1, {0: [1]}),
    _topic("partitions should be a consecutive 0-based integer sequence", -1, -1, {1: [1]}),
    _topic("The manual partition assignment includes an empty replica list", -1, -1, {0: []}),
    _topic("Unknown topic config name: nope", configs={"nope": "1"}),
    _topic("Null value not supported for topic configs: retention.ms", configs={"retention.ms": None}),
    _topic("Invalid value soon for configuration retention.ms", configs={"retention.ms": "soon"}),
    _topic(
        "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
        configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
    ),
    _grow("Topic already has 2 partition(s)", 2),
    _grow("The topic {t} currently has 2 partition(s); 1 would not be an increase", 1),
    _grow("The topic {t} currently has 2 partition(s); -22 would not be an increase", -22),
    _grow("Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified", 5, [[1]]),
    _grow("The manual partition assignment includes the broker 1 more than once", 3, [[1, 1]]),
    _grow("The manual partition assignment includes broker 12, but no such broker is registered", 3, [[12]]),
    _delete("This server does not host this topic-partition", ("phrases-gone", ZERO)),
    _delete("This server does not host this topic ID", (None, NO_ID)),
    _delete("Neither topic name nor id were specified", (None, ZERO)),
    _delete("You may not specify both topic name and topic id", ("phrases-gone", NO_ID)),
    _delete("Duplicate topic name", ("phrases-gone", ZERO), ("phrases-gone", ZERO)),
    Phrase(
        "No such topic as phrases-gone", _sending(2, lambda client: electing(client, ("phrases-gone", [0])))
    ),
    Phrase("No such partition as {t}-7", _sending(2, lambda client: electing(client, (_made(client), [7])))),
    Phrase(
        "Unknown election type 7", _sending(2, lambda client: electing(client, ("t", [0]), election_type=7))
    ),
    Phrase(
        "Leader election not needed for topic partition",
        _sending(2, lambda client: electing(client, (_made(client), [0]))),
    ),
    Phrase(
        "Unable to find a topic named phrases-gone",
        _sending(1, lambda client: moving(client, ("phrases-gone", 0, [1]))),
    ),
    Phrase(
        "Unable to find partition {t}:7", _sending(1, lambda client: moving(client, (_made(client), 7, [1])))
    ),
)

# ---- configurations


def _config(words: str, kind: int, name: str, *operations: Op) -> Phrase:
    """A change of a resource; the name "{t}" stands for a new topic."""

    def request(client: DialogueClient) -> Message:
        resource = _made(client) if name == "{t}" else name
        return alter_configs.altering((kind, resource, operations), validate_only=True)

    return Phrase(words, _sending(1, request))


def _described(words: str, kind: int, name: str) -> Phrase:
    return Phrase(words, _sending(4, lambda _: configs.describe((kind, name, None))))


def _replaced(words: str, kind: int, name: str, settings: Mapping[str, str | None]) -> Phrase:
    request: AlterConfigsRequest = alter_configs.replacing(
        (kind, name, list(settings.items())), validate_only=True
    )
    return Phrase(words, _sending(2, lambda _: request))


CONFIGS: Final = (
    _config(
        "Cannot update these configs dynamically: [num.partitions]", BROKER, "1", ("num.partitions", SET, "3")
    ),
    _config("Cannot update these configs dynamically: [broker.id]", BROKER, "", ("broker.id", SET, "3")),
    _config(
        "Cannot update these configs dynamically: [security.inter.broker.protocol]",
        BROKER,
        "1",
        ("security.inter.broker.protocol", SET, "PLAINTEXT"),
    ),
    _replaced(
        "Cannot update these configs dynamically: [num.partitions]", BROKER, "1", {"num.partitions": "3"}
    ),
    _config(
        "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        BROKER,
        "",
        ("listeners", SET, "PLAINTEXT://:1"),
    ),
    _config(
        "These security configs can be dynamically updated only per-listener using the listener prefix: "
        "[ssl.keystore.location]",
        BROKER,
        "1",
        ("ssl.keystore.location", SET, "/x"),
    ),
    _config(
        "Invalid value x for configuration log.cleaner.threads",
        BROKER,
        "1",
        ("log.cleaner.threads", SET, "x"),
    ),
    _config(
        "Config value append is not allowed for config key: log.cleaner.threads",
        BROKER,
        "1",
        ("log.cleaner.threads", APPEND, "1"),
    ),
    _config("Node id must be an integer, but it is: x", BROKER, "x", ("log.cleaner.threads", SET, "1")),
    _config(
        "Unexpected broker id, expected 1, but received 2", BROKER, "2", ("log.cleaner.threads", SET, "1")
    ),
    _config("Unknown topic config name: nope", TOPIC, "{t}", ("nope", SET, "1")),
    _config("Invalid value -5 for configuration retention.ms", TOPIC, "{t}", ("retention.ms", SET, "-5")),
    _config("Null value not supported for : retention.ms", TOPIC, "{t}", ("retention.ms", SET, None)),
    _config(
        "Error due to duplicate config keys",
        TOPIC,
        "{t}",
        ("retention.ms", SET, "1"),
        ("retention.ms", DELETE, None),
    ),
    _config(
        "Can't APPEND to key retention.ms because its type is not LIST",
        TOPIC,
        "{t}",
        ("retention.ms", APPEND, "1"),
    ),
    _config("Can't SUBTRACT to key nope because its type is not LIST", TOPIC, "{t}", ("nope", SUBTRACT, "1")),
    _config("Unknown operations type 7", BROKER, "1", ("log.cleaner.threads", 7, "1")),
    _config(
        "Tiered Storage functionality is disabled in the broker",
        TOPIC,
        "{t}",
        ("remote.storage.enable", SET, "true"),
    ),
    _config("Default topic resources are not allowed", TOPIC, "", ("retention.ms", SET, "1")),
    _config("The topic 'phrases-gone' does not exist", TOPIC, "phrases-gone", ("retention.ms", SET, "1")),
    _config("Default group resources are not allowed", GROUP, "", ("streams.num.standby.replicas", SET, "1")),
    _config("Unknown group config name: nope", GROUP, "g", ("nope", SET, "1")),
    _config(
        "Can't APPEND to key streams.session.timeout.ms because its type is not LIST",
        GROUP,
        "g",
        ("streams.session.timeout.ms", APPEND, "1"),
    ),
    _config(
        "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        GROUP,
        "g",
        ("streams.num.standby.replicas", SET, "3"),
    ),
    _config(
        "streams.session.timeout.ms must be greater than or equal to group.streams.min.session.timeout.ms",
        GROUP,
        "g",
        ("streams.session.timeout.ms", SET, "1"),
    ),
    _config(
        "streams.heartbeat.interval.ms must be less than or equal to group.streams.max.heartbeat.interval.ms",
        GROUP,
        "g",
        ("streams.heartbeat.interval.ms", SET, "99999"),
    ),
    _config(
        "Invalid value x for configuration streams.num.standby.replicas",
        GROUP,
        "g",
        ("streams.num.standby.replicas", SET, "x"),
    ),
    _config(
        "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        GROUP,
        "g",
        ("consumer.session.timeout.ms", SET, "5000000"),
    ),
    _config("Unknown client metrics configuration: nope", METRICS, "s", ("nope", SET, "1")),
    _config("Subscription name can't be empty", METRICS, "", ("interval.ms", SET, "100")),
    _config("Illegal client matching pattern: a=b", METRICS, "s", ("match", SET, "a=b")),
    _config("Invalid value 99 for interval.ms", METRICS, "s", ("interval.ms", SET, "99")),
    _config("Unknown resource type 99", 99, "x", ("a", SET, "1")),
    _config("Logger no.such.logger does not exist!", LOGGER, "1", ("no.such.logger", SET, "INFO")),
    _config(
        "Cannot set the log level of root to NOPE as it is not a supported log level. Valid log levels are DEBUG",
        LOGGER,
        "1",
        ("root", SET, "NOPE"),
    ),
    _config("Removing the log level of the root logger is not allowed", LOGGER, "1", ("root", DELETE, None)),
    _config(
        "APPEND operation is not allowed for the BROKER_LOGGER resource",
        LOGGER,
        "1",
        ("root", APPEND, "INFO"),
    ),
    _described("Broker id must be an integer, but it is: x", BROKER, "x"),
    _described("Unexpected broker id, expected 1 or empty string, but received 2", BROKER, "2"),
    _described("Client metrics subscription name must not be empty", METRICS, ""),
    _described("Group name must not be empty", GROUP, ""),
    _described("Topic name is invalid: the empty string is not allowed", TOPIC, ""),
)

# ---- groups


def _join_classic_group(client: DialogueClient, kind: str, metadata: bytes, assignment: bytes) -> Message:
    """The response to a member of the consumer protocol that joins a classic group with one member."""
    group = a_group(client, "g")
    with Member(client, group, kind=kind, protocols=[("range", metadata)]) as member:
        member.join()
        member.sync({member.id: assignment})
        return _join(client, group, "new")


def _join(client: DialogueClient, group: str, member_id: str, **fields: object) -> Message:
    consumer = Consumer(client, group, member_id)
    base = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return client.connection.request(consumer.heartbeat_request(**{**base, **fields}), consumer.version)


def _with_user_data(client: DialogueClient) -> Message:
    subscription, assignment = migrations.subscription("t"), migrations.assignment("t", 0, user_data=b"mine")
    return _join_classic_group(client, "consumer", subscription, assignment)


def _of_connect(client: DialogueClient) -> Message:
    return _join_classic_group(client, "connect", b"x", b"y")


def _malformed(client: DialogueClient) -> Message:
    return _join_classic_group(client, "consumer", members.SUBSCRIBED, b"\0\3\0\0")


def _with_no_such_assignor(client: DialogueClient) -> Message:
    return _join(client, a_group(client, "g"), "m", server_assignor="best")


def _in_another_epoch(client: DialogueClient) -> Message:
    group = a_group(client, "g")
    _join(client, group, "m")
    return _join(client, group, "m", member_epoch=9)


def _stranger(client: DialogueClient) -> Message:
    group = a_group(client, "g")
    _join(client, group, "m")
    return _join(client, group, "stranger", member_epoch=1)


def _fenced(client: DialogueClient) -> Message:
    group = a_group(client, "g")
    _join(client, group, "m", instance_id="i")
    return _join(client, group, "n", instance_id="i")


GROUPS: Final = (
    Phrase(
        "Cannot upgrade classic group {g} to consumer group because an unsupported custom assignor is in use. Please "
        "refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
        _with_user_data,
    ),
    Phrase(
        "Cannot upgrade classic group {g} to consumer group because the group does not use the consumer embedded "
        "protocol.",
        _of_connect,
    ),
    Phrase(
        "Cannot upgrade classic group {g} to consumer group because the embedded consumer protocol is malformed.",
        _malformed,
    ),
    Phrase(
        "ServerAssignor best is not supported. Supported assignors: uniform, range", _with_no_such_assignor
    ),
    Phrase(
        "The consumer group member has a greater member epoch (9) than the one known by the group coordinator",
        _in_another_epoch,
    ),
    Phrase("Member stranger is not a member of group {g}", _stranger),
    Phrase(
        "Static member n with instance id i cannot join the group because the instance id is owned by",
        _fenced,
    ),
)

# ---- records


def _produced(words: str, configs: Mapping[str, str], timestamp: int = START_MS) -> Phrase:
    """A record without a key, produced to the topic {t}."""

    def request(client: DialogueClient) -> Message:
        return produce(client.create("t", 1, configs), batch(b"x", timestamp=timestamp))

    return Phrase(words, _sending(12, request))


BEFORE: Final = {"message.timestamp.before.max.ms": "1000"}
COMPACTED: Final = {"cleanup.policy": "compact"}

RECORDS: Final = (
    _produced("One or more records have been rejected due to invalid timestamp", BEFORE, 5),
    _produced(
        "Timestamp 5 of message with offset 0 is out of range. The timestamp should be within [", BEFORE, 5
    ),
    _produced("One or more records have been rejected due to 1 record errors in total", COMPACTED),
    _produced("Compacted topic cannot accept message without key in topic partition {t}-0", COMPACTED),
)

PHRASES: Final = (*QUOTAS, *USERS, *TOPICS, *CONFIGS, *GROUPS, *RECORDS)
