"""The output of `barnabas topics --describe`: Kafka's lines in a pipe, a table for each topic on a terminal, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.cli.admin.calls.cluster import describe_cluster
from barnabas.cli.admin.calls.configs import ConfigValue, describe_configs
from barnabas.cli.admin.calls.reassignments import Reassignment, list_reassignments
from barnabas.cli.admin.calls.topics import PartitionInfo, TopicInfo
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import ServerError, UnsupportedApiError
from barnabas.cli.admin.names import ResourceType
from barnabas.cli.admin.options import ParsedOptions
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.cli.admin.shapes import TopicRow
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.wire import ZERO_UUID, uuid_to_string

_HEADS = ("Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr")


class Wanted(NamedTuple):
    """Which topics and partitions --describe is to show."""

    overrides_only: bool
    under_replicated: bool
    under_min_isr: bool
    at_min_isr: bool
    unavailable: bool

    @classmethod
    def of(cls, given: ParsedOptions) -> Wanted:
        return cls(
            given.has("topics-with-overrides"),
            given.has("under-replicated-partitions"),
            given.has("under-min-isr-partitions"),
            given.has("at-min-isr-partitions"),
            given.has("unavailable-partitions"),
        )

    @property
    def has_reports(self) -> bool:
        """Whether one of the --...-partitions filters was given."""
        return self.under_replicated or self.under_min_isr or self.at_min_isr or self.unavailable


class DescribedPartition(NamedTuple):
    """One partition, and its reassignment in progress."""

    info: PartitionInfo
    move: Reassignment | None

    @property
    def replication_factor(self) -> int:
        """The number of replicas without those that a reassignment adds."""
        move = self.move
        if move is None or not set(self.info.replicas) & {*move.adding, *move.removing}:
            return len(self.info.replicas)
        return len(move.replicas) - len(move.adding)

    def is_wanted(self, wanted: Wanted, min_isr: int, live: set[int]) -> bool:
        """Whether one of the reports names it; without reports every partition is shown."""
        in_sync = len(self.info.isr)
        return (
            not wanted.has_reports
            or (wanted.under_replicated and in_sync < self.replication_factor)
            or (wanted.under_min_isr and (self.info.leader is None or in_sync < min_isr))
            or (wanted.at_min_isr and in_sync == min_isr)
            or (wanted.unavailable and self.info.leader not in live)
        )

    def line(self, topic: str) -> str:
        """As Kafka's tool prints it."""
        info = self.info
        parts = [
            f"Topic: {topic}",
            f"Partition: {info.number}",
            f"Leader: {'none' if info.leader is None else info.leader}",
            f"Replicas: {_ids(info.replicas)}",
            f"Isr: {_ids(info.isr)}",
        ]
        if self.move is not None:
            parts += [
                f"Adding Replicas: {_ids(self.move.adding)}",
                f"Removing Replicas: {_ids(self.move.removing)}",
            ]
        elr = "N/A" if info.elr is None else _ids(info.elr)
        last_known = "N/A" if info.last_known_elr is None else _ids(info.last_known_elr)
        return "\t" + "\t".join([*parts, f"Elr: {elr}", f"LastKnownElr: {last_known}"])

    def cells(self) -> tuple[object, ...]:
        """A row of the table."""
        info = self.info
        return info.number, info.leader, info.replicas, info.isr, info.elr, info.last_known_elr

    def as_json(self) -> dict[str, object]:
        """A part of the topic's object."""
        info = self.info
        return {
            "partition": info.number,
            "leader": info.leader,
            "replicas": info.replicas,
            "isr": info.isr,
            "elr": info.elr,
            "lastKnownElr": info.last_known_elr,
        }


class DescribedTopic(NamedTuple):
    """One topic with its configuration."""

    info: TopicInfo
    configs: dict[str, str | None]
    """The keys with other values than their defaults, in the broker's order."""
    min_isr: int
    partitions: list[DescribedPartition]

    @property
    def replication_factor(self) -> int:
        """That of the first partition."""
        return self.partitions[0].replication_factor if self.partitions else 0

    def line(self) -> str:
        """As Kafka's tool prints it."""
        topic_id = (
            "" if self.info.topic_id == ZERO_UUID else f"\tTopicId: {uuid_to_string(self.info.topic_id)}"
        )
        return (
            f"Topic: {self.info.name}{topic_id}\tPartitionCount: {len(self.partitions)}"
            f"\tReplicationFactor: {self.replication_factor}\tConfigs: {self._settings(',')}"
        )

    def title(self) -> str:
        """Above the table."""
        count = len(self.partitions)
        title = f"{self.info.name}: {count} partition{'' if count == 1 else 's'}, "
        title += f"replication factor {self.replication_factor}, id {uuid_to_string(self.info.topic_id)}"
        return title + (f"\n{self._settings(' ')}" if self.configs else "")

    def row(self, partitions: Sequence[DescribedPartition]) -> TopicRow:
        """The object for JSON, with the partitions that are wanted."""
        return TopicRow(
            self.info.name,
            uuid_to_string(self.info.topic_id),
            self.info.is_internal,
            len(self.partitions),
            self.replication_factor,
            self.configs,
            [partition.as_json() for partition in partitions],
        )

    def _settings(self, between: str) -> str:
        return between.join(f"{name}={value}" for name, value in self.configs.items())


class TopicReport:
    """The output for described topics and the filters of the command line."""

    def __init__(self, topics: Sequence[DescribedTopic], wanted: Wanted, live: set[int]) -> None:
        self._topics = topics
        self._wanted = wanted
        self._live = live

    @classmethod
    def of(cls, client: AdminClient, topics: Sequence[TopicInfo], wanted: Wanted) -> TopicReport:
        """Fetches configurations, live brokers and reassignments of these topics."""
        if not topics:
            return cls([], wanted, set())
        configs = describe_configs(
            client, ResourceType.TOPIC, [topic.name for topic in topics], include_synonyms=False
        )
        live = {node.id for node in describe_cluster(client).nodes}
        moves = _moves(client, topics)
        return cls([_described(topic, configs[topic.name], moves) for topic in topics], wanted, live)

    def show(self, out: Output) -> None:
        """Prints it."""
        for topic, partitions in self._chosen():
            out.row(topic.row(partitions))
            if out.is_terminal:
                rows = [partition.cells() for partition in partitions]
                out.table(_HEADS, [] if self._wanted.overrides_only else rows, title=topic.title())
                continue
            if not self._wanted.has_reports:
                out.line(topic.line())
            if not self._wanted.overrides_only:
                for partition in partitions:
                    out.line(partition.line(topic.info.name))

    def _chosen(self) -> Iterator[tuple[DescribedTopic, list[DescribedPartition]]]:
        for topic in self._topics:
            partitions = [
                each for each in topic.partitions if each.is_wanted(self._wanted, topic.min_isr, self._live)
            ]
            if (partitions or not self._wanted.has_reports) and (
                topic.configs or not self._wanted.overrides_only
            ):
                yield topic, partitions


def _described(
    topic: TopicInfo, configs: Sequence[ConfigValue], moves: dict[TopicPartition, Reassignment]
) -> DescribedTopic:
    set_ones = {each.name: each.value for each in configs if not each.is_default}
    min_isr = next((int(each.value or 1) for each in configs if each.name == "min.insync.replicas"), 1)
    partitions = [
        DescribedPartition(each, moves.get(TopicPartition(topic.name, each.number)))
        for each in topic.partitions
    ]
    return DescribedTopic(topic, set_ones, min_isr, partitions)


def _moves(client: AdminClient, topics: Sequence[TopicInfo]) -> dict[TopicPartition, Reassignment]:
    """The reassignments of these topics; empty if the broker does not list them, or not for this user."""
    partitions = [TopicPartition(topic.name, each.number) for topic in topics for each in topic.partitions]
    try:
        return list_reassignments(client, partitions)
    except UnsupportedApiError:
        return {}
    except ServerError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
