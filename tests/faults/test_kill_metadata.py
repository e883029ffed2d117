"""kill -9 right after a response: topics, their settings and producer ids are those of the response."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection

from tests.interop.clients.confluent import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.support.broker_process import BrokerProcess
from tests.support.raw import RawConnection, frame, header_v1

pytestmark = [pytest.mark.faults, pytest.mark.clients, pytest.mark.timeout(180)]

LIMIT_S = 30.0
INIT_PRODUCER_ID = 22
ROUNDS = 6
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "internal.metadata.log.segment.bytes": "4000",
    "internal.metadata.max.batch.size.in.bytes": "4000",
    "metadata.max.retention.bytes": "10000",
}


def init_producer_id(bootstrap: str) -> int:
    """A producer id for an idempotent producer (InitProducerId v0)."""
    with RawConnection(bootstrap) as connection:
        connection.send(frame(header_v1(INIT_PRODUCER_ID, 0, 1) + struct.pack(">hi", -1, 1000)))
        _, _, error, producer_id, epoch = struct.unpack(">iihqh", connection.read_frame())
    assert (error, epoch) == (0, 0)
    assert isinstance(producer_id, int)
    return producer_id


def test_topics_are_as_they_were_acknowledged(tmp_path: Path) -> None:
    dice = random.Random(17)
    topics: dict[str, tuple[int, str]] = {}
    ids: dict[str, str] = {}
    with BrokerProcess(tmp_path / "data", SNAPSHOTS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for turn in range(ROUNDS):
            for number in range(3):
                name, partitions, retention = (
                    f"topic-{turn}-{number}",
                    dice.randrange(1, 4),
                    str(dice.randrange(10**6)),
                )
                new = NewTopic(name, partitions, 1, config={"retention.ms": retention})
                admin.create_topics([new])[name].result(LIMIT_S)
                topics[name] = partitions, retention
            described = admin.describe_topics(TopicCollection(list(topics)))
            ids.update({name: str(future.result(LIMIT_S).topic_id) for name, future in described.items()})
            if turn % 2:
                gone = dice.choice(sorted(topics))
                admin.delete_topics([gone])[gone].result(LIMIT_S)
                del topics[gone], ids[gone]
            broker.kill()
            broker.start()
            check(admin, topics, ids)
        assert broker.stop() == 0
        broker.start()
        check(admin, topics, ids)
        assert broker.stop() == 0
    assert list((tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint"))


def check(admin: AdminClient, topics: dict[str, tuple[int, str]], ids: dict[str, str]) -> None:
    """Exactly these topics, with these partitions, ids and settings."""
    found = {
        name: len(topic.partitions)
        for name, topic in admin.list_topics(timeout=LIMIT_S).topics.items()
        if not name.startswith("__")
    }
    assert found == {name: partitions for name, (partitions, _) in topics.items()}
    for name, future in admin.describe_topics(TopicCollection(list(topics))).items():
        assert str(future.result(LIMIT_S).topic_id) == ids[name]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    for resource, future in admin.describe_configs(resources).items():
        assert future.result(LIMIT_S)["retention.ms"].value == topics[resource.name][1]


def test_a_producer_id_is_assigned_once(tmp_path: Path) -> None:
    given: list[int] = []
    with BrokerProcess(tmp_path / "data") as broker:
        for number in range(4):
            given += [init_producer_id(broker.bootstrap) for _ in range(3)]
            if number == 2:
                assert broker.stop() == 0
            else:
                broker.kill()
            broker.start()
        given.append(init_producer_id(broker.bootstrap))
        assert broker.stop() == 0
    assert len(given) == len(set(given)), given
