"""Several clients create, delete and recreate topics at once: each response is true when it is sent.

Each client has topic names of its own, for which every response has to agree with the responses before it. Other names
are shared: there the responses of all clients have to be consistent at the end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import batch
from tests.conformance.dialogues.words import list_offsets, named, produce
from tests.support.broker_process import BrokerProcess
from tests.support.chance import explores, seed_or

CLIENTS = 4
STEPS = int(os.environ.get("BARNABAS_RACE_STEPS", "60"))
SEED = seed_or(5)
SHARED = ("shared-a", "shared-b")
MOST_PARTITIONS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("races"))) as running:
        yield running


class Topic:
    """The state of a topic that one client owns: `ends` are its log end offsets."""

    def __init__(self, topic_id: Uuid, partitions: int) -> None:
        self.topic_id = topic_id
        self.ends = [0] * partitions


class Client:
    """One connection, and the state of the client's topics."""

    def __init__(self, connection: BrokerConnection, number: int) -> None:
        self.connection = connection
        self.random = Random(SEED * 1000 + number)
        self.own: dict[str, Topic | None] = {f"own-{number}-{word}": None for word in "ab"}
        self.gone: list[Uuid] = []
        self.created: list[tuple[str, Uuid]] = []
        self.removed: list[tuple[str, Uuid]] = []

    # ---- requests

    def create(self, name: str, partitions: int) -> tuple[int, Uuid]:
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer: Any = self.connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        return answer.topics[0].error_code, answer.topics[0].topic_id

    def delete(self, name: str | None, topic_id: Uuid = ZERO_UUID) -> tuple[int, Uuid]:
        state = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)
        answer: Any = self.connection.request(DeleteTopicsRequest(topics=[state], timeout_ms=30_000), 6)
        return answer.responses[0].error_code, answer.responses[0].topic_id

    def describe(self, name: str | None, topic_id: Uuid = ZERO_UUID) -> Any:
        request = MetadataRequest(topics=named(name, topic_id=topic_id), allow_auto_topic_creation=False)
        answer: Any = self.connection.request(request, 12)
        return answer.topics[0]

    # ---- steps on topics of its own: every response is checked

    def step(self) -> None:
        name = self.random.choice(sorted(self.own))
        topic = self.own[name]
        if self.random.random() < 0.3:
            self.share(self.random.choice(SHARED))
        elif topic is None:
            self.create_absent(name)
        else:
            self.random.choice((self.write, self.add_partitions, self.check, self.remove))(name, topic)

    def create_absent(self, name: str) -> None:
        """Checks that the topic is absent, then creates it."""
        if self.random.random() < 0.5:
            assert self.describe(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert self.delete(name)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = self.random.randint(1, MOST_PARTITIONS)
        code, topic_id = self.create(name, partitions)
        assert code == ErrorCode.NONE
        self.own[name] = topic = Topic(topic_id, partitions)
        self.random.choice((self.check, self.write))(name, topic)

    def check(self, name: str, topic: Topic) -> None:
        by_id = self.random.random() < 0.5
        found = self.describe(None, topic.topic_id) if by_id else self.describe(name)
        assert (found.error_code, found.name, found.topic_id) == (0, name, topic.topic_id)
        assert sorted(part.partition_index for part in found.partitions) == [*range(len(topic.ends))]
        assert all(part.error_code == 0 and part.leader_id >= 0 for part in found.partitions)
        assert self.create(name, 1)[0] == ErrorCode.TOPIC_ALREADY_EXISTS
        answer: Any = self.connection.request(list_offsets(name, *range(len(topic.ends))), 7)
        ends = {part.partition_index: part.offset for part in answer.topics[0].partitions}
        assert ends == dict(enumerate(topic.ends))
        if self.gone:
            gone = self.random.choice(self.gone)
            assert self.describe(None, gone).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            rejected: Any = self.connection.request(produce(gone, batch(b"late")), 13)
            assert rejected.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def write(self, name: str, topic: Topic) -> None:
        index = self.random.randrange(len(topic.ends))
        by_id = self.random.random() < 0.5
        request = produce(topic.topic_id if by_id else name, batch(b"x"), first_partition=index)
        answer: Any = self.connection.request(request, 13 if by_id else 12)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, topic.ends[index])
        topic.ends[index] += 1

    def add_partitions(self, name: str, topic: Topic) -> None:
        count = len(topic.ends) + self.random.randint(0, 1)
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        answer: Any = self.connection.request(CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000), 3)
        code = answer.results[0].error_code
        assert code == (ErrorCode.NONE if count > len(topic.ends) else ErrorCode.INVALID_PARTITIONS)
        topic.ends += [0] * (count - len(topic.ends))
        self.check(name, topic)

    def remove(self, name: str, topic: Topic) -> None:
        code, topic_id = (
            self.delete(None, topic.topic_id) if self.random.random() < 0.5 else self.delete(name)
        )
        assert (code, topic_id) == (0, topic.topic_id)
        self.gone.append(topic_id)
        self.own[name] = None
        if self.random.random() < 0.7:
            self.create_absent(name)

    # ---- steps on shared topics: successes are recorded

    def share(self, name: str) -> None:
        if self.random.random() < 0.5:
            code, topic_id = self.create(name, 2)
            assert code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
            if code == ErrorCode.NONE:
                self.created.append((name, topic_id))
        else:
            code, topic_id = self.delete(name)
            assert code in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            if code == ErrorCode.NONE:
                self.removed.append((name, topic_id))


@explores
def test_every_response_agrees_with_the_responses_before_it(broker: BrokerProcess) -> None:
    failures: list[BaseException] = []
    clients = [Client(BrokerConnection(broker.host, broker.port), number) for number in range(CLIENTS)]

    def run(client: Client) -> None:
        try:
            with client.connection:
                for _ in range(STEPS):
                    client.step()
        except BaseException as error:  # raised in the thread of the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]

    created = [one for client in clients for one in client.created]
    removed = [one for client in clients for one in client.removed]
    assert len({topic_id for _, topic_id in created}) == len(created), "two topics have the same id"
    assert len(set(removed)) == len(removed), "a topic was deleted twice"
    assert set(removed) <= set(created)
    left = set(created) - set(removed)
    last_client = Client(BrokerConnection(broker.host, broker.port), CLIENTS)
    with last_client.connection:
        found = {name: last_client.describe(name) for name in SHARED}
    assert left == {(name, topic.topic_id) for name, topic in found.items() if topic.error_code == 0}


def test_one_of_concurrent_creations_succeeds(broker: BrokerProcess) -> None:
    """All requests are sent before the first response is read."""
    for turn in range(10):
        name = f"wanted-{turn}"
        connections = [BrokerConnection(broker.host, broker.port) for _ in range(8)]
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        question = MetadataRequest(topics=named(name), allow_auto_topic_creation=False)
        for connection in connections:
            connection.send(request, 7)
            connection.send(question, 12)  # on the same connection, so that it is executed after the creation
        answers: list[Any] = [connection.receive(request, 7) for connection in connections]
        seen: list[Any] = [connection.receive(question, 12) for connection in connections]
        codes = sorted(answer.topics[0].error_code for answer in answers)
        assert codes == [ErrorCode.NONE] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 7
        (topic_id,) = {a.topics[0].topic_id for a in answers if a.topics[0].error_code == ErrorCode.NONE}
        for answer in seen:
            assert answer.topics[0].error_code in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert answer.topics[0].topic_id in {topic_id, ZERO_UUID}
        for connection in connections:
            found: Any = connection.request(question, 12)
            assert (found.topics[0].error_code, found.topics[0].topic_id) == (0, topic_id)
            connection.close()
