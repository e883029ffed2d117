"""The history of groups: descriptions and changes of offsets by Kafka's tools, confluent-kafka and kafka-python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as in by_confluent

from tests.conformance.java_admin import JavaAdmin
from tests.conformance.parity.by_confluent import _outcome, _plain
from tests.conformance.parity.by_tools import shown
from tests.conformance.parity.transcript import Transcript, Tree
from tests.interop.clients.kafka_python import KafkaAdminClient
from tests.interop.clients.kafka_python import TopicPartition as PyPartition

with warnings.catch_warnings():
    # It loads its message definitions with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import MemberToRemove, OffsetSpec
    from kafka.structs import OffsetAndMetadata as PyOffset

LIMIT_S = 20.0
FIRST_MS = 1_600_000_000_000
GROUPS, CONFIGS = "kafka-consumer-groups", "kafka-configs"


def run_history(transcript: Transcript, java: JavaAdmin) -> None:
    """Runs all steps and notes their answers."""
    bootstrap = transcript.place.bootstrap
    _create_topics(bootstrap)
    with members(bootstrap):
        _by_tools(transcript, java)
        _by_confluent(transcript, AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}))
        _by_kafka_python(transcript)
    _without_members(transcript, java)


def _create_topics(bootstrap: str) -> None:
    """Creates gr-one with ten records, a second apart, in each of three partitions, and an empty gr-two."""
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(
        [NewTopic("gr-one", 3, config={"retention.ms": "-1"}), NewTopic("gr-two", 1)]
    ).values():
        future.result(LIMIT_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce("gr-one", b"v", partition=number % 3, timestamp=FIRST_MS + number // 3 * 1000)
    assert producer.flush(LIMIT_S) == 0


@contextmanager
def members(bootstrap: str) -> Iterator[None]:
    """Two members of a classic group, one of them static, and one of a consumer group, all stable and at offset 4."""
    shared = {"bootstrap.servers": bootstrap, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    found = [
        Consumer({**shared, "group.id": "gr-classic", "client.id": "a"}),
        Consumer({**shared, "group.id": "gr-classic", "client.id": "b", "group.instance.id": "static"}),
        Consumer({**shared, "group.id": "gr-new", "group.protocol": "consumer", "client.id": "c"}),
    ]
    try:
        for consumer in found:
            consumer.subscribe(["gr-one"])
        deadline = time.monotonic() + 60
        while sorted(len(consumer.assignment()) for consumer in found) != [1, 2, 3]:
            assert time.monotonic() < deadline
            for consumer in found:
                consumer.poll(0.05)
        for consumer in found:
            at = [TopicPartition(each.topic, each.partition, 4) for each in consumer.assignment()]
            consumer.commit(offsets=at, asynchronous=False)
        yield
    finally:
        for consumer in found:
            consumer.close()


# ---- Kafka's tools


def _by_tools(transcript: Transcript, java: JavaAdmin) -> None:
    for number, words in enumerate(resets()):
        _run(transcript, java, f"move {number}", GROUPS, words)
    work = Path(transcript.place.work)
    (work / "plan.csv").write_text("".join(f'"gr-one",{index},{index + 2}\n' for index in range(3)))
    (work / "plans.csv").write_text('"gr-planned","gr-one",0,7\n"gr-other","gr-two",0,0\n')
    for number, (tool, words) in enumerate(descriptions()):
        _run(transcript, java, f"look {number}", tool, words)
    for number, words in enumerate(removals()):
        _run(transcript, java, f"removal {number}", GROUPS, words)


def _run(transcript: Transcript, java: JavaAdmin, step: str, tool: str, words: str) -> None:
    place = transcript.place
    filled = [word.format(work=place.work) for word in words.split()]
    transcript.note(
        f"groups/{tool} {step} {words}",
        lambda: shown(java.tool(tool, "--bootstrap-server", place.bootstrap, *filled)),
    )


def resets() -> Iterator[str]:
    """Each way to reset the offsets of a group, one after the other."""
    reset = "--reset-offsets --group gr-moved"
    for to in (
        "--topic gr-one --to-latest",
        "--topic gr-one:0,2 --shift-by -4",
        "--topic gr-one --shift-by 3",
        "--all-topics --to-earliest",
        "--topic gr-one --to-offset 6",
        "--topic gr-one:1 --to-offset 99",
        "--topic gr-one --topic gr-two --to-current",
        "--topic gr-one --to-datetime 2020-09-13T12:26:43.500",
        "--topic gr-one --to-datetime 2033-01-01T00:00:00.000Z",
        "--topic gr-one --by-duration P1D",
        "--topic gr-one --by-duration P10000D",
    ):
        yield f"{reset} {to} --execute"
        yield "--describe --group gr-moved"
    yield f"{reset} --all-topics --to-current --export"
    yield f"{reset} --topic gr-one --to-earliest --dry-run"
    yield f"{reset} --topic nowhere --to-latest --execute"
    yield f"{reset} --topic gr-one:9 --to-latest --execute"
    yield "--reset-offsets --group gr-classic --topic gr-one --to-latest --execute"
    yield "--reset-offsets --group gr-new --topic gr-one --to-latest --execute"


def descriptions() -> Iterator[tuple[str, str]]:
    """Descriptions of groups, and resets from files."""
    for words in (
        "--reset-offsets --group gr-planned --from-file {work}/plan.csv --dry-run",
        "--reset-offsets --group gr-planned --from-file {work}/plan.csv --execute",
        "--reset-offsets --group gr-planned --group gr-other --from-file {work}/plans.csv --execute",
        "--list",
        "--list --state",
        "--list --state Stable --type",
        "--list --state Empty",
        "--list --type consumer",
        "--list --type classic,consumer --state Stable,Empty",
        "--describe --group gr-classic",
        "--describe --group gr-classic --verbose",
        "--describe --group gr-classic --members --verbose",
        "--describe --group gr-classic --state --verbose",
        "--describe --group gr-new",
        "--describe --group gr-new --offsets --verbose",
        "--describe --group gr-new --members --verbose",
        "--describe --group gr-new --state --verbose",
        "--describe --group gr-planned",
        "--describe --group gr-planned --members",
        "--describe --group gr-planned --state",
        "--describe --group gr-other",
        "--describe --group gr-nobody",
        "--describe --group gr-nobody --members",
        "--describe --group gr-nobody --state",
    ):
        yield GROUPS, words
    for words in ("", "--consumer", "--group-type classic", "--group-type consumer", "--protocol consumer"):
        yield "kafka-groups", f"--list {words}".strip()
    for words in ("--share", "--streams", "--group-type share"):
        yield "kafka-groups", f"--list {words}"
    set_heartbeat = "--add-config consumer.heartbeat.interval.ms=7000"
    yield CONFIGS, f"--alter --entity-type groups --entity-name gr-new {set_heartbeat}"
    yield CONFIGS, "--describe --entity-type groups --entity-name gr-new"
    yield CONFIGS, "--describe --entity-type groups"
    yield CONFIGS, "--describe --entity-type groups --all"
    yield CONFIGS, "--describe --group gr-nobody"


def removals() -> Iterator[str]:
    """Valid and rejected deletions of offsets and groups."""
    yield from (
        "--delete-offsets --group gr-planned --topic gr-one:0",
        "--delete-offsets --group gr-planned --topic gr-one:9",
        "--delete-offsets --group gr-planned --topic nowhere",
        "--delete-offsets --group gr-classic --topic gr-one",
        "--delete-offsets --group gr-new --topic gr-one",
        "--delete-offsets --group gr-new --topic gr-two",
        "--delete-offsets --group gr-nobody --topic gr-one",
        "--delete --group gr-other",
        "--delete --group gr-classic",
        "--delete --group gr-new",
        "--delete --group gr-nobody",
        "--describe --group gr-planned",
        "--list",
    )


def _without_members(transcript: Transcript, java: JavaAdmin) -> None:
    """After all members have left but the static one, which is removed here."""
    admin = KafkaAdminClient(bootstrap_servers=transcript.place.bootstrap, request_timeout_ms=20_000)
    static = [MemberToRemove(group_instance_id=name, reason="gone") for name in ("static", "stranger")]
    transcript.note(
        "groups/kafka-python remove", lambda: _ordered(admin.remove_group_members("gr-classic", static))
    )
    admin.close()
    for number, words in enumerate(
        (
            "--list --state",
            "--describe --group gr-classic --state",
            "--describe --group gr-new --state",
            "--describe --group gr-new",
            "--reset-offsets --group gr-new --topic gr-one --to-latest --execute",
            "--describe --group gr-new",
            "--delete-offsets --group gr-classic --topic gr-one:1",
            "--describe --group gr-classic",
            "--delete --group gr-classic --group gr-new",
            "--list",
        )
    ):
        _run(transcript, java, f"after {number}", GROUPS, words)


# ---- confluent-kafka


def _by_confluent(transcript: Transcript, client: AdminClient) -> None:
    admin: Any = client

    def note(step: str, call: Any) -> None:
        transcript.note(f"groups/confluent {step}", call)

    def at(group: str, *partitions: TopicPartition) -> list[ConsumerGroupTopicPartitions]:
        return [ConsumerGroupTopicPartitions(group, list(partitions) or None)]

    def placed(offset: int) -> list[TopicPartition]:
        return [TopicPartition("gr-one", index, offset + index, f"m{index}") for index in range(2)]

    for step, filters in {
        "all": {},
        "stable": {"states": {ConsumerGroupState.STABLE}},
        "new": {"types": {ConsumerGroupType.CONSUMER}},
        "empty and classic": {
            "states": {ConsumerGroupState.EMPTY},
            "types": {ConsumerGroupType.CLASSIC},
        },
    }.items():
        note(f"list {step}", lambda filters=filters: _listed(admin.list_consumer_groups(**filters)))
    names = ["gr-classic", "gr-new", "gr-planned", "gr-nobody"]
    for operations in (False, True):
        note(
            f"describe {operations}",
            lambda operations=operations: _described(
                admin.describe_consumer_groups(names, include_authorized_operations=operations)
            ),
        )
    note("alter", lambda: _offsets(admin.alter_consumer_group_offsets(at("gr-conf", *placed(3)))))
    note("alter busy", lambda: _offsets(admin.alter_consumer_group_offsets(at("gr-classic", *placed(3)))))
    note("alter busy too", lambda: _offsets(admin.alter_consumer_group_offsets(at("gr-new", *placed(3)))))
    nowhere = [TopicPartition("nowhere", 0, 1), TopicPartition("gr-one", 9, 1)]
    note("alter nowhere", lambda: _offsets(admin.alter_consumer_group_offsets(at("gr-conf", *nowhere))))
    for group in ("gr-conf", "gr-classic", "gr-new", "gr-nobody"):
        note(f"offsets {group}", lambda group=group: _offsets(admin.list_consumer_group_offsets(at(group))))
    some = [TopicPartition("gr-one", 0), TopicPartition("gr-two", 0), TopicPartition("nowhere", 0)]
    for stable in (False, True):
        note(
            f"some offsets {stable}",
            lambda stable=stable: _offsets(
                admin.list_consumer_group_offsets(at("gr-conf", *some), require_stable=stable)
            ),
        )
    note("delete", lambda: _outcome(admin.delete_consumer_groups(["gr-conf", "gr-classic", "gr-nobody"])))


def _listed(future: Any) -> Tree:
    found = future.result(LIMIT_S)
    return {"groups": sorted(map(repr, map(_plain, found.valid))), "errors": _plain(found.errors)}


def _described(futures: Any) -> Tree:
    """Descriptions with members sorted by id, which begins with the client id."""
    found = _outcome(futures)
    for answer in found.values():
        answer.get("members", []).sort(key=lambda member: str(member.get("client_id")))
    return found


def _offsets(futures: Any) -> Tree:
    found = _outcome(futures)
    for answer in found.values():
        if "topic_partitions" in answer:
            answer["topic_partitions"] = sorted(map(str, answer["topic_partitions"]))
    return found


# ---- kafka-python


def _by_kafka_python(transcript: Transcript) -> None:
    admin = KafkaAdminClient(bootstrap_servers=transcript.place.bootstrap, request_timeout_ms=20_000)
    one, other = PyPartition("gr-one", 0), PyPartition("gr-one", 1)

    def note(step: str, call: Any) -> None:
        transcript.note(f"groups/kafka-python {step}", lambda: _ordered(call()))

    try:
        note("list", admin.list_groups)
        note("list new", lambda: admin.list_groups(types_filter=["consumer"]))
        note("list empty", lambda: admin.list_groups(states_filter=["Empty"]))
        note("describe", lambda: admin.describe_groups(["gr-classic", "gr-planned", "gr-nobody"]))
        placed = {one: PyOffset(5, "said", -1), other: PyOffset(6, "", -1)}
        note("alter", lambda: admin.alter_group_offsets("gr-py", placed))
        note("offsets", lambda: admin.list_group_offsets("gr-py"))
        note("delete offsets", lambda: admin.delete_group_offsets("gr-py", [one]))
        note("offsets left", lambda: admin.list_group_offsets("gr-py"))
        specs = {one: OffsetSpec.LATEST, other: OffsetSpec.EARLIEST}
        note("reset", lambda: admin.reset_group_offsets("gr-py", specs))
        note("reset busy", lambda: admin.reset_group_offsets("gr-classic", specs))
        note("offsets reset", lambda: admin.list_group_offsets("gr-py"))
        note("delete", lambda: admin.delete_groups(["gr-py", "gr-nobody"]))
    finally:
        admin.close()


def _ordered(answer: Any) -> Tree:
    """An answer of kafka-python with unordered collections sorted."""
    if isinstance(answer, dict):
        return {str(key): _ordered(value) for key, value in sorted(answer.items(), key=lambda it: str(it[0]))}
    if isinstance(answer, list | set | tuple) and not hasattr(answer, "_fields"):
        return sorted((_ordered(one) for one in answer), key=repr)
    return answer if isinstance(answer, str | int | float | bool | None) else str(answer)
