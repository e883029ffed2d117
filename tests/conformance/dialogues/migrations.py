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
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues import members as classic
from tests.conformance.dialogues.consumers import Consumer, described
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.dialogues.partitions import creating, grown, more
from tests.conformance.speaker import Speaker

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSION = 3


def subscription(*topics: str, owned: Mapping[str, Sequence[int]] | None = None) -> bytes:
    """What a classic consumer says when it joins."""
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in (owned or {}).items()
        ],
    )
    return VERSION.to_bytes(2, "big") + encode(message, VERSION)


def assignment(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """What a leader gives to a classic consumer."""
    given = ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(partitions))
    message = ConsumerProtocolAssignment(assigned_partitions=[given], user_data=user_data)
    return VERSION.to_bytes(2, "big") + encode(message, VERSION)


def a_classic_member(
    client: Speaker, group: str, topic: str, partitions: Sequence[int] = (0, 1), instance: str | None = None
) -> Member:
    """The only member of a stable classic group."""
    member = Member(client, group, instance=instance, protocols=[("range", subscription(topic))])
    member.join()
    member.sync({member.id: assignment(topic, *partitions)})
    return member


def joins_again(member: Member, topic: str, *partitions: int) -> None:
    """A classic member of a consumer group joins again and says that it owns `partitions`."""
    member.protocols = [("range", subscription(topic, owned={topic: list(partitions)}))]
    member.join()
    member.sync()


@dialogue(HEARTBEAT, 0, 1)
def up_and_down_again(client: Speaker) -> None:
    """A consumer joins a classic group and leaves it again; the classic member is served all the time."""
    topic, group = client.create("t", 2), a_group(client, "g")
    with a_classic_member(client, group, topic) as old:
        new = Consumer(client, group, "new")
        new.join(topic)
        described(client, group)
        old.heartbeat()
        joins_again(old, topic, 0, 1)
        old.heartbeat()
        joins_again(old, topic, 0)
        old.heartbeat()
        new.beat()
        new.owns({topic: [1]})
        described(client, group)
        client.ask(
            ListGroupsRequest(), 5, noting=lambda it: [each for each in it.groups if each.group_id == group]
        )
        new.leave()
        classic.described(client, group)
        old.heartbeat()
        joins_again(old, topic, 0)
        old.heartbeat()
        new.beat()
        old.leave()


@dialogue(HEARTBEAT, 1, 1)
def targets_are_shown_while_a_classic_group_prepares(client: Speaker) -> None:
    """Members have what the consumer group meant them to have, whether they have heard of it or not."""
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
def a_classic_member_joins_consumers(client: Speaker) -> None:
    topic, group = client.create("t", 4), a_group(client, "g")
    new = Consumer(client, group, "new")
    new.join(topic)
    with Member(client, group, protocols=[("range", subscription(topic))]) as old:
        old.join()
        old.sync()
        old.heartbeat()
        new.owns({topic: [0, 1, 2, 3]})
        new.owns({topic: [0, 1]})
        old.heartbeat()
        joins_again(old, topic)
        old.heartbeat()
        described(client, group)
        old.leave()
        new.beat()
        described(client, group)


@dialogue(HEARTBEAT, 1, 1)
def static_members_change_over_and_back(client: Speaker) -> None:
    """The rolling way: each instance comes back with the other protocol and takes its own place."""
    topic, group = client.create("t", 2), a_group(client, "g")
    with a_classic_member(client, group, topic, instance="i") as old:
        new = Consumer(client, group, "new", instance="i")
        new.join(topic)
        described(client, group)
        old.heartbeat()
        new.owns({topic: [0, 1]})
        with Member(client, group, instance="i", protocols=[("range", subscription(topic))]) as again:
            again.join()
            classic.described(client, group)
            again.sync()
            again.heartbeat()
        new.beat()


@dialogue(HEARTBEAT, 1, 1)
def what_classic_members_may_not_do(client: Speaker) -> None:
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
def groups_that_cannot_change_over(client: Speaker) -> None:
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
    differs="Kafka sends away who waits in a classic group also when a consumer cannot join it",
)
def who_waits_where_no_consumer_can_join(client: Speaker) -> None:
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
    differs="Kafka forgets an empty consumer group when an unknown member of the classic protocol tries to join it",
)
def an_empty_consumer_group_rejects_a_classic_member(client: Speaker) -> None:
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
    differs="Kafka gives away what a classic member owns when its group becomes classic and a consumer group again",
)
def what_a_classic_member_owns_when_it_has_joined_again(client: Speaker) -> None:
    """It has not asked for its assignment yet, and goes on as a consumer."""
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
        changed.beat(member_epoch=old.generation)


@dialogue(HEARTBEAT, 1, 1)
def groups_without_members_change_over(client: Speaker) -> None:
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
    differs="Kafka gives away what a classic member owns when its group becomes classic and a consumer group again",
)
def a_classic_member_owns_more_than_its_target(client: Speaker) -> None:
    """Its group changes to and fro before the member has heard of any of it."""
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
    differs="in Kafka a group becomes stable whose members lack their assignment, and they do not hear of it",
)
def the_last_consumer_changes_over_while_others_wait_for_partitions(client: Speaker) -> None:
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
def the_last_consumer_changes_over_when_all_own_their_target(client: Speaker) -> None:
    topic, group = client.create("t", 3), a_group(client, "g")
    with a_classic_member(client, group, topic, (0, 1, 2)) as old:
        new = Consumer(client, group, "new", instance="i")
        new.join(topic)
        joins_again(old, topic, 0, 1, 2)
        joins_again(old, topic, 0, 1)
        new.beat()
        with Member(client, group, instance="i", protocols=[("range", subscription(topic))]) as again:
            again.join()
            again.sync()
            classic.described(client, group)
            old.heartbeat()
            again.heartbeat()


@dialogue(HEARTBEAT, 1, 1)
def a_static_classic_member_joins_again_when_all_have_changed_over(client: Speaker) -> None:
    """The group stays one of the newer protocol, though no member of it is left: another was the last to change."""
    topic, group = client.create("t", 3), a_group(client, "g")
    with a_classic_member(client, group, topic, (0, 1, 2), instance="i") as old:
        new = Consumer(client, group, "new")
        new.join(topic)
        with Member(client, group, protocols=[("range", subscription(topic))]) as changed:
            changed.id = new.id
            changed.join()
            described(client, group)
            joins_again(old, topic, 0, 1)
            described(client, group)
            classic.described(client, group)


@dialogue(
    HEARTBEAT,
    1,
    1,
    differs="Kafka has nobody join again to be assigned partitions where a consumer group has classic members only",
)
def a_lone_consumer_comes_back_with_the_classic_protocol(client: Speaker) -> None:
    """The group stays one of the newer protocol; a topic grows, and no heartbeat of that protocol sees it."""
    topic, group = client.create("t", 2), a_group(client, "g")
    new = Consumer(client, group, "new")
    new.join(topic)
    with Member(client, group, protocols=[("range", subscription(topic))]) as changed:
        changed.id = new.id
        changed.join()
        changed.sync()
        changed.heartbeat()
        client.peer.ask(creating(more(topic, 3)), 3)
        grown(client, topic, 3)
        changed.heartbeat()
