"""Offsets expire in Barnabas as in Apache Kafka, with the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.messages.groups import ListGroupsRequest
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues.committed import commit_of, fetch_of, note_offsets, note_records
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.conformance

SETTINGS = {
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.retention.check.interval.ms": "200",
}
OWN_RETENTION = 4
"""The last version of OffsetCommit with a retention of its own: the broker's would outlast a test."""

JOIN = 3
"""The last version of JoinGroup that adds a member at once: no expiration can remove the group while it is empty."""

SOON_MS = 300


def history(port: int) -> list[object]:
    """Plays the history with one broker; returns the transcript."""
    with BrokerConnection("127.0.0.1", port) as connection:
        client = DialogueClient(connection, OWN_RETENTION, "expire")
        name, other = client.create("a", 2), client.create("b")
        readers, workers, alone = (a_group(client, word) for word in ("readers", "workers", "alone"))
        subscription = b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name.encode() + b"\xff\xff\xff\xff"
        with (
            Member(client, readers, protocols=[("range", subscription)], join_version=JOIN) as reader,
            Member(client, workers, kind="connect", join_version=JOIN) as worker,
        ):
            for member in (reader, worker):
                member.join()
                member.sync({member.id: b"all"})
            soon = {"retention_time_ms": SOON_MS, "leader_epoch": -1}
            for group, who in ((readers, reader), (workers, worker), (alone, None)):
                identity = {} if who is None else {"member_id": who.id}
                generation = -1 if who is None else who.generation
                request = commit_of(client, group, (name, 0, 5), (other, 0, 6), **soon, **identity)
                request.generation_id_or_member_epoch = generation
                client.request(request)
            client.request(commit_of(client, alone, (name, 1, 7), retention_time_ms=60_000, leader_epoch=-1))
            until_left(client, alone, 1)
            until_left(client, readers, 1)  # offsets of topics without a subscription expire
            for group in (alone, readers, workers):
                note_offsets(client, group)
                client.note(records(client, group))
            reader.leave()
            worker.leave()
        until_left(client, readers, 0)
        until_left(client, workers, 0)
        client.request_until(
            ListGroupsRequest(), lambda found: [group.group_id for group in found.groups] == [alone], 4
        )
        client.note([records(client, group) for group in (readers, workers)])
        return client.transcript


def until_left(client: DialogueClient, group: str, topics: int) -> None:
    """Waits until the group has offsets of so many topics."""
    client.request_until(
        fetch_of(client, [group], version=8), lambda it: len(it.groups[0].topics) == topics, 8
    )


def records(client: DialogueClient, group: str) -> list[object]:
    """The notes of `note_records`, sorted: offsets that expire together have the order of a hash table."""
    noted = len(client.transcript)
    note_records(client, group)
    lines = client.transcript[noted:]
    del client.transcript[noted:]
    return sorted(lines, key=repr)


def test_same_offsets_expire(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kafka", require_classpath(), SETTINGS) as kafka:
        expected = history(kafka.port)
    with BrokerProcess(tmp_path / "ours", {**SETTINGS, "barnabas.profile": "kafka"}) as barnabas:
        assert history(barnabas.port) == expected
