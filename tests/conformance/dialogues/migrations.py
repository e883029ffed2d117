"""Groups that move between the classic and the consumer protocol while they have members (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.groups import ListGroupsRequest
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues import members as classic
from tests.conformance.dialogues.consumers import Consumer, described
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.dialogues.partitions import creating, more, note_grown

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSION = 3


def subscription(*topics: str, owned: Mapping[str, Sequence[int]] | None = None) -> bytes:
    """The subscription in the JoinGroup request of a classic consumer."""
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in (owned or {}).items()
        ],
    )
    return VERSION.to_bytes(2, "big") + encode(message, VERSION)


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """The assignment that a leader sends for a classic consumer."""
    given = ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(partitions))
    message = ConsumerProtocolAssignment(assigned_partitions=[given], user_data=user_data)
    return VERSION.to_bytes(2, "big") + encode(message, VERSION)


def a_classic_member(
    client: DialogueClient,
    group: str,
    topic: str,
    partitions: Sequence[int] = (0, 1),
    instance: str | None = None,
) -> Member:
    """The only member of a stable classic group."""
    member = Member(client, group, instance=instance, protocols=[("range", subscription(topic))])
    member.join()
    member.sync({member.id: assignment(topic, *partitions)})
    return member


def rejoin(member: Member, topic: str, *partitions: int) -> None:
    """Rejoins a classic member of a consumer group, which reports that it owns `partitions`."""
    member.protocols = [("range", subscription(topic, owned={topic: list(partitions)}))]
    member.join()
    member.sync()


@dialogue(HEARTBEAT, 0, 1)
def upgrade_and_downgrade(client: DialogueClient) -> None:
    """A consumer joins a classic group and leaves it; the classic member is served throughout."""
    topic, group = client.create("t", 2), a_group(client, "g")
    with a_classic_member(client, group, topic) as old:
        new = Consumer(client, group, "new")
        new.join(topic)
        described(client, group)
        old.heartbeat()
        rejoin(old, topic, 0, 1)
        old.heartbeat()
        rejoin(old, topic, 0)
        old.heartbeat()
        new.heartbeat()
        new.report_owned({topic: [1]})
        described(client, group)
        client.request(
            ListGroupsRequest(), 5, noting=lambda it: [each for each in it.groups if each.group_id == group]
        )
        new.leave()
        classic.described(client, group)
        old.heartbeat()
        rejoin(old, topic, 0)
        old.heartbeat()
        new.heartbeat()
        old.leave()


@dialogue(HEARTBEAT, 1, 1)
def a_downgraded_group_keeps_its_targets(client: DialogueClient) -> None:
    """Members keep the target assignment of the consumer group, even one that they have not received."""
    topic, all_of_it = client.create("t", 4), range(4)
    knows_nothing = a_group(client, "a")
    new = Consumer(client, knows_nothing, "new")
    new.join(topic)
    with Member(client, knows_nothing, protocols=[("range", subscription(topic))]) as old:
        old.join()
        new.leave()
        classic.described(client, knows_nothing)
        old.sync()
        old.heartbeat()
        old.join()
        classic.described(client, knows_nothing)
        old.sync({old.id: assignment(topic, *all_of_it)})
        classic.described(client, knows_nothing)
    has_too_much = a_group(client, "b")
    with a_classic_member(client, has_too_much, topic, all_of_it) as old:
        new = Consumer(client, has_too_much, "new")
        new.join(topic)
        new.leave()
        classic.described(client, has_too_much)
        old.heartbeat()
        old.join()
        old.sync({old.id: assignment(topic, *all_of_it)})
        classic.described(client, has_too_much)


@dialogue(HEARTBEAT, 1, 1)
def a_classic_member_joins_consumers(client: DialogueClient) -> None:
    topic, group = client.create("t", 4), a_group(client, "g")
    new = Consumer(client, group, "new")
    new.join(topic)
    with Member(client, group, protocols=[("range", subscription(topic))]) as old:
        old.join()
        old.sync()
        old.heartbeat()
        new.report_owned({topic: [0, 1, 2, 3]})
        new.report_owned({topic: [0, 1]})
        old.heartbeat()
        rejoin(old, topic)
        old.heartbeat()
        described(client, group)
        old.leave()
        new.heartbeat()
        described(client, group)


@dialogue(HEARTBEAT, 1, 1)
def static_members_migrate_and_return(client: DialogueClient) -> None:
    """A rolling migration: each instance returns with the other protocol and replaces itself."""
    topic, group = client.create("t", 2), a_group(client, "g")
    with a_classic_member(client, group, topic, instance="i") as old:
        new = Consumer(client, group, "new", instance="i")
        new.join(topic)
        described(client, group)
        old.heartbeat()
        new.report_owned({topic: [0, 1]})
        with Member(client, group, instance="i", protocols=[("range", subscription(topic))]) as again:
            again.join()
            classic.described(client, group)
            again.sync()
            again.heartbeat()
        new.heartbeat()


@dialogue(HEARTBEAT, 1, 1)
def rejected_requests_of_classic_members(client: DialogueClient) -> None:
    topic, group = client.create("t", 2), a_group(client, "g")
    new = Consumer(client, group, "new")
    new.join(topic)
    with Member(client, group, protocols=[("range", subscription(topic))]) as old:
        old.join()
        for wrong in ({"generation": 9}, {"id": "nobody"}, {"id": "new"}, {"instance": "i"}):
            before = {name: getattr(old, name) for name in wrong}
            for name, value in wrong.items():
                setattr(old, name, value)
            old.heartbeat()
            old.sync()
            old.leave()
            for name, value in before.items():
                setattr(old, name, value)
    for kind, protocols in (("connect", "range"), ("consumer", "roundrobin")):
        with Member(client, group, kind=kind, protocols=[(protocols, subscription(topic))]) as stranger:
            stranger.join()
    described(client, group)


@dialogue(HEARTBEAT, 1, 1)
def groups_that_cannot_be_upgraded(client: DialogueClient) -> None:
    topic = client.create("t", 2)
    connect = a_group(client, "connect")
    with Member(client, connect, kind="connect", protocols=[("range", b"x")]) as worker:
        worker.join()
        worker.sync({worker.id: b"y"})
        Consumer(client, connect, "new").join(topic)
        worker.heartbeat()
    own = a_group(client, "own")
    with Member(client, own, protocols=[("range", subscription(topic))]) as member:
        member.join()
        member.sync({member.id: assignment(topic, 0, user_data=b"mine")})
        Consumer(client, own, "new").join(topic)
        member.heartbeat()
    broken = a_group(client, "broken")
    with Member(client, broken, protocols=[("range", subscription(topic))]) as member:
        member.join()
        member.sync({member.id: b"\0\3\0\0"})
        Consumer(client, broken, "new").join(topic)


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="Kafka ends the pending joins of a classic group even if a consumer cannot join it",
)
def a_member_waits_in_a_group_that_cannot_be_upgraded(client: DialogueClient) -> None:
    topic, group = client.create("t", 2), a_group(client, "g")
    range_of_topic = [("range", subscription(topic))]
    with Member(client, group, protocols=range_of_topic) as old:
        old.join()
        old.sync({old.id: b"\0\3\0\0"})
        with Member(client, group, protocols=range_of_topic) as second:
            second.begin_to_join()
            classic.awaits_state(client, group, "PreparingRebalance")
            Consumer(client, group, "new").join(topic)
            old.heartbeat()
            old.leave()
            second.joined()


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="Kafka deletes an empty consumer group when an unknown member of the classic protocol tries to join it",
)
def an_empty_consumer_group_rejects_a_classic_member(client: DialogueClient) -> None:
    topic, group = client.create("t", 2), a_group(client, "g")
    first = Consumer(client, group, "first")
    first.join(topic)
    first.leave()
    described(client, group)
    with Member(client, group, protocols=[("range", subscription(topic))]) as stranger:
        stranger.id = "stranger"
        stranger.join()
    described(client, group)
    Consumer(client, group, "second").join(topic)


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="Kafka reassigns partitions that a classic member owns when its group is downgraded and upgraded again",
)
def partitions_of_a_classic_member_that_rejoined(client: DialogueClient) -> None:
    """The member has not sent SyncGroup yet, and continues as a consumer."""
    owned, wanted, group = client.create("t", 1), client.topic("unknown"), a_group(client, "g")
    with Member(client, group, protocols=[("range", subscription(wanted))]) as old:
        old.join()
        old.sync({old.id: assignment(owned, 0)})
        first = Consumer(client, group, "first")
        first.join(wanted)
        first.leave()
        old.join()
        Consumer(client, group, "second").join(wanted)
        changed = Consumer(client, group, old.id)
        changed.heartbeat(member_epoch=old.generation)


@dialogue(HEARTBEAT, 1, 1)
def empty_groups_migrate(client: DialogueClient) -> None:
    topic, group = client.create("t", 2), a_group(client, "g")
    with a_classic_member(client, group, topic) as old:
        old.leave()
        new = Consumer(client, group, "new")
        new.join(topic)
        described(client, group)
        new.leave()
        old.id = ""
        old.join()
        classic.described(client, group)


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="Kafka reassigns partitions that a classic member owns when its group is downgraded and upgraded again",
)
def a_classic_member_owns_more_than_its_target(client: DialogueClient) -> None:
    """Its group is upgraded and downgraded before its next heartbeat."""
    topic, group = client.create("t", 3), a_group(client, "g")
    with a_classic_member(client, group, topic, (0, 1, 2)) as old:
        new = Consumer(client, group, "new")
        new.join(topic)
        new.leave()
        newer = Consumer(client, group, "newer")
        newer.join(topic)
        described(client, group)
        old.heartbeat()


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="in Kafka the group becomes stable while members lack their assignment, and they are not notified",
)
def the_last_consumer_migrates_while_others_wait_for_partitions(client: DialogueClient) -> None:
    topic, group = client.create("t", 3), a_group(client, "g")
    new = Consumer(client, group, "new", instance="i")
    new.join(topic)
    with Member(client, group, protocols=[("range", subscription(topic))]) as waiting:
        waiting.join()
        waiting.sync()
        with Member(client, group, instance="i", protocols=[("range", subscription(topic))]) as again:
            again.join()
            again.sync()
            waiting.heartbeat()
            again.heartbeat()


@dialogue(HEARTBEAT, 1, 1)
def the_last_consumer_migrates_when_all_own_their_target(client: DialogueClient) -> None:
    topic, group = client.create("t", 3), a_group(client, "g")
    with a_classic_member(client, group, topic, (0, 1, 2)) as old:
        new = Consumer(client, group, "new", instance="i")
        new.join(topic)
        rejoin(old, topic, 0, 1, 2)
        rejoin(old, topic, 0, 1)
        new.heartbeat()
        with Member(client, group, instance="i", protocols=[("range", subscription(topic))]) as again:
            again.join()
            again.sync()
            classic.described(client, group)
            old.heartbeat()
            again.heartbeat()


@dialogue(HEARTBEAT, 1, 1)
def a_static_member_rejoins_when_all_have_migrated(client: DialogueClient) -> None:
    """The group stays a consumer group without any consumer, as another member was the last to migrate."""
    topic, group = client.create("t", 3), a_group(client, "g")
    with a_classic_member(client, group, topic, (0, 1, 2), instance="i") as old:
        new = Consumer(client, group, "new")
        new.join(topic)
        with Member(client, group, protocols=[("range", subscription(topic))]) as changed:
            changed.id = new.id
            changed.join()
            described(client, group)
            rejoin(old, topic, 0, 1)
            described(client, group)
            classic.described(client, group)


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="Kafka does not rebalance a consumer group that has only classic members",
)
def a_single_consumer_returns_to_the_classic_protocol(client: DialogueClient) -> None:
    """The group stays a consumer group; a topic grows, and no consumer heartbeat notices it."""
    topic, group = client.create("t", 2), a_group(client, "g")
    new = Consumer(client, group, "new")
    new.join(topic)
    with Member(client, group, protocols=[("range", subscription(topic))]) as changed:
        changed.id = new.id
        changed.join()
        changed.sync()
        changed.heartbeat()
        client.connection.request(creating(more(topic, 3)), 3)
        note_grown(client, topic, 3)
        changed.heartbeat()
