"""DescribeLogDirs and AlterReplicaLogDirs, with brokers that have three log directories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues import JBOD, dialogue
from tests.conformance.dialogues.topics import create, outcomes, wish

describing = partial(dialogue, ApiKey.DESCRIBE_LOG_DIRS, 1, 5, brokers=JBOD)
altering = partial(dialogue, ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, brokers=JBOD)

DESCRIBE_VERSION = 4
SET, DELETE = 0, 1


def describe(*topics: tuple[str, Sequence[int]], all_of_them: bool = False) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=None
        if all_of_them
        else [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=list(partitions))
            for topic, partitions in topics
        ]
    )


def alter(*moves: tuple[str, str, Sequence[int]]) -> AlterReplicaLogDirsRequest:
    """A request with moves, each given as (path, topic, partitions)."""
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=name, partitions=list(partitions))
                ],
            )
            for path, name, partitions in moves
        ]
    )


def shown(answer: DescribeLogDirsResponse) -> object:
    """All but the directory of each new partition, which each broker chooses by its own rules."""
    return {
        "error": answer.error_code,
        "directories": [
            (
                one.error_code,
                _basename(one.log_dir),
                one.total_bytes > 0,
                one.usable_bytes > 0,
                one.is_cordoned,
            )
            for one in sorted(answer.results, key=lambda one: one.log_dir)
        ],
        "partitions": sorted(
            (topic.name, it.partition_index, it.partition_size, it.offset_lag, it.is_future_key)
            for one in answer.results
            for topic in one.topics
            for it in topic.partitions
        ),
    }


def placed(answer: DescribeLogDirsResponse) -> object:
    """The directory of each partition."""
    return sorted(
        (topic.name, it.partition_index, _basename(one.log_dir), it.is_future_key)
        for one in answer.results
        for topic in one.topics
        for it in topic.partitions
    )


def error_codes(answer: AlterReplicaLogDirsResponse) -> object:
    return sorted(
        (topic.topic_name, it.partition_index, it.error_code)
        for topic in answer.results
        for it in topic.partitions
    )


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


def paths(client: DialogueClient) -> list[str]:
    """The log directories, in order."""
    answer = client.connection.request(describe(), DESCRIBE_VERSION)
    assert isinstance(answer, DescribeLogDirsResponse)
    return sorted(one.log_dir for one in answer.results)


def note_settled_directories(client: DialogueClient, name: str, partitions: int) -> None:
    """Waits until no partition of the topic moves, then notes their directories."""

    def is_settled(answer: DescribeLogDirsResponse) -> bool:
        found = [it for one in answer.results for topic in one.topics for it in topic.partitions]
        return len(found) == partitions and not any(it.is_future_key for it in found)

    answer = client.request_until(describe((name, range(partitions))), is_settled, DESCRIBE_VERSION)
    client.note(placed(answer))


# ---- DescribeLogDirs


@describing()
def no_partition_at_all(client: DialogueClient) -> None:
    client.request(describe(), noting=shown)


@describing()
def some_partitions(client: DialogueClient) -> None:
    name = client.create("a", 3)
    client.write(name, batch(b"one"), batch(b"two", b"three"), partition=1)
    client.request(describe((name, [0, 1])), noting=shown)
    client.request(describe((name, [2]), (name, [1])), noting=shown)


@describing()
def unknown_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(describe((name, [7]), (client.topic("b"), [0]), (name, [0, 0]), ("", [-1])), noting=shown)


@describing()
def all_partitions(client: DialogueClient) -> None:
    name = client.create("a", 2)

    def ours(answer: DescribeLogDirsResponse) -> object:
        for one in answer.results:
            one.topics = [topic for topic in one.topics if topic.name == name]
        return shown(answer)

    client.request(describe(all_of_them=True), noting=ours)


# ---- AlterReplicaLogDirs


@altering()
def nothing_to_move(client: DialogueClient) -> None:
    client.request(alter(), noting=error_codes)
    client.request(alter((paths(client)[0], client.create("a"), [])), noting=error_codes)


@altering()
def replicas_move(client: DialogueClient) -> None:
    name = client.create("a", 3)
    first, second, third = paths(client)
    client.write(name, *(batch(b"%d" % number) for number in range(20)), partition=1)
    for path in (second, third, first):
        client.request(alter((path, name, [0, 1, 2])), noting=error_codes)
        note_settled_directories(client, name, 3)
    client.request(alter((first, name, [0]), (second, name, [1]), (third, name, [2])), noting=error_codes)
    note_settled_directories(client, name, 3)
    assert client.write(name, batch(b"after"), partition=1) == [20]


@altering()
def a_move_to_the_current_directory(client: DialogueClient) -> None:
    name = client.create("a")
    path = paths(client)[0]
    client.request(alter((path, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)
    client.request(alter((path, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)


@altering()
def the_last_of_several_targets_counts(client: DialogueClient) -> None:
    name = client.create("a")
    first, second, third = paths(client)
    client.request(alter((first, name, [0, 0]), (third, name, [0]), (second, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)


@altering()
def a_move_there_and_back(client: DialogueClient) -> None:
    name = client.create("a")
    first, second, third = paths(client)
    client.request(alter((first, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)
    for path in (second, third, second, first):
        client.request(alter((path, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)


@altering()
def moves_of_unknown_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    path = paths(client)[0]
    client.request(
        alter((path, name, [1, -1]), (path, client.topic("b"), [0]), (path, "", [0])), noting=error_codes
    )


@altering()
def a_directory_for_future_partitions(client: DialogueClient) -> None:
    name = client.topic("a")
    third = paths(client)[2]
    client.request(alter((third, name, [0, 1, 2, 3])), noting=error_codes)
    client.create("a", 4)
    note_settled_directories(client, name, 4)


@altering()
def unknown_directories(client: DialogueClient) -> None:
    name = client.create("a")
    first = paths(client)[0]
    for path in ("/nowhere", "", first + "/", first[:-1], "d1", first + "/.."):
        client.request(alter((path, name, [0]), (path, client.topic("b"), [0])), noting=error_codes)


@altering()
def names_too_long_for_a_future_directory(client: DialogueClient) -> None:
    path = paths(client)[0]
    for length in (210, 211, 212, 213, 214, 215, 249, 250, 300):
        client.request(alter((path, "x" * length, [0, 10])), noting=error_codes)


@altering()
def cordoned_directories(client: DialogueClient) -> None:
    name = client.create("a")
    first, second, third = paths(client)
    client.request(alter((third, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)
    try:
        cordon(client, f"{first},{second}")
        client.request_until(
            describe(), lambda answer: sum(one.is_cordoned for one in answer.results) == 2, 5
        )
        client.request(describe(), 5, noting=shown)
        client.request(alter((first, name, [0]), (first, client.topic("b"), [0])), noting=error_codes)
        client.create("c", 6)
        note_settled_directories(client, client.topic("c"), 6)
        cordon(client, "*")
        client.request_until(describe(), lambda answer: all(one.is_cordoned for one in answer.results), 5)
        # Kafka's controller learns of it with the broker's next heartbeat.
        tried = create(wish(client.topic("e")), validate_only=True)
        client.request_until(tried, lambda answer: answer.topics[0].error_code != 0, 7)
        client.request(create(wish(client.topic("d"))), 7, noting=outcomes)
        client.request(alter((third, name, [0])), noting=error_codes)
    finally:
        cordon(client, None)
    client.request_until(describe(), lambda answer: not any(one.is_cordoned for one in answer.results), 5)
    client.request(alter((first, name, [0])), noting=error_codes)
    note_settled_directories(client, name, 1)


def cordon(client: DialogueClient, value: str | None) -> None:
    request = IncrementalAlterConfigsRequest
    entry = request.AlterableConfig(
        name="cordoned.log.dirs", config_operation=DELETE if value is None else SET, value=value
    )
    resource = request.AlterConfigsResource(resource_type=4, resource_name="1", configs=[entry])
    client.request(request(resources=[resource]), 1)
