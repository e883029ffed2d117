"""Responses as trees of dicts and lists that can be compared, without what differs between any two brokers.

What is left out, and why:

    host, port, cluster_id   each broker has its own
    texts                    each broker has its own; without an error their presence is compared
    throttle_time_ms         depends on the other sequences
    times near now           both brokers read the clock, one after the other
    checksums of batches     depend on the producer id; their validity is compared
    names of other sequences responses that list everything are reduced to names with the prefix of the sequence
    order                    of lists of structs other than IN_ORDER, which Kafka has from hash tables
"""

from __future__ import annotations

import time
from typing import Any, Final

from barnabas.protocol.codec import decode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.messages.metadata import DescribeTopicPartitionsRequest
from barnabas.protocol.schema import Message, Struct
from tests.conformance.differential.batches import plain
from tests.conformance.differential.names import MEMBER_IDS, PRODUCER_IDS, Names
from tests.conformance.differential.steps import PREFIX, Step

Tree = dict[str, Any]

NOW_WITHIN_MS: Final = 3_600_000
PER_BROKER: Final = frozenset({"host", "port", "cluster_id"})
TEXTS: Final = frozenset({"error_message", "batch_index_error_message", "documentation"})
LEFT_OUT: Final = frozenset({"throttle_time_ms"})

LISTS_ALL: Final = frozenset(
    {
        ("MetadataResponse", "topics"),
        ("ListGroupsResponse", "groups"),
        ("ListTransactionsResponse", "transaction_states"),
        ("DescribeAclsResponse", "resources"),
        ("DescribeClientQuotasResponse", "entries"),
        ("DescribeUserScramCredentialsResponse", "results"),
        ("ListConfigResourcesResponse", "config_resources"),
        ("DescribeTopicPartitionsResponse", "topics"),
        ("ElectLeadersResponse", "replica_election_results"),
    }
)
"""Lists in responses that may contain names of other sequences."""


IN_ORDER: Final = frozenset(
    {"brokers", "coordinators", "record_errors", "api_keys", "synonyms", "aborted_transactions"}
)
"""Lists of structs that have an order; in DescribeTopicPartitions all have one."""

SETS: Final = frozenset({"subscribed_topic_names", "state_filters", "unknown_state_filters"})
"""Lists of strings without an order; lists of partition numbers have none either."""

ASSIGNMENTS: Final = frozenset({"assignment", "member_assignment"})
LATEST_ASSIGNMENT: Final = 3

KEYS: Final = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "user",
    "resource_type",
    "resource_name",
    "partition_index",
    "partition",
    "index",
    "partition_id",
    "producer_id",
    "group_instance_id",
    "instance_id",
    "member_id",
    "entity_type",
    "key",
)
"""The fields by which other lists are sorted, before all other fields of their elements."""


def place(item: Any) -> str:
    """The sort key of an element of a list."""
    return repr([item.get(key) for key in KEYS]) + repr(item)


MERGED: Final[dict[str, tuple[str, str, str, str]]] = {
    "FetchResponse": ("responses", "topic", "partitions", "partition_index"),
    "ProduceResponse": ("responses", "name", "partition_responses", "index"),
    "ListOffsetsResponse": ("topics", "name", "partitions", "partition_index"),
    "OffsetForLeaderEpochResponse": ("topics", "topic", "partitions", "partition"),
    "DeleteRecordsResponse": ("topics", "name", "partitions", "partition_index"),
}
"""Responses in which a topic may occur several times, in any order: the list, the topic's name, and its partitions."""


class TreeBuilder:
    """Builds the trees of one side's responses."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def tree(self, step: Step, answer: Message) -> Tree:
        """The tree of the response to that step."""
        return self._struct(step, answer)

    def _struct(self, step: Step, value: Struct) -> Tree:
        kind = type(value).__name__
        tree: Tree = {}
        for field in value.fields:
            if field.name not in LEFT_OUT:
                tree[field.name] = self._field(step, value, field.name, getattr(value, field.name))
        if tree.get("error_code"):
            tree.pop("error_message", None)
        for owner, name in LISTS_ALL:
            if owner == kind and isinstance(tree[name], list):
                tree[name] = [item for item in tree[name] if not _is_foreign(item)]
        if kind in MERGED:
            name = MERGED[kind][0]
            tree[name] = _merged(tree[name], *MERGED[kind][1:])
        return tree

    def _field(self, step: Step, owner: Struct, name: str, value: Any) -> Any:
        if isinstance(value, Struct):
            return self._struct(step, value)
        if isinstance(value, list | tuple):
            items = [self._field(step, owner, name, item) for item in value]
            return self._in_order(step, name, items)
        if name == "records":
            return plain_times(plain(self._names.records(bytes(value or b""))))
        if name in TEXTS:
            return "a text" if value else None
        if name in PER_BROKER and value not in ("", -1, None):
            return name
        return self._leaf(step, owner, name, value)

    def _in_order(self, step: Step, name: str, items: list[Any]) -> list[Any]:
        if name in SETS or (name == "partitions" and items and isinstance(items[0], int)):
            return sorted(items)
        if not items or not isinstance(items[0], dict) or name in IN_ORDER:
            return items
        return items if isinstance(step.request, DescribeTopicPartitionsRequest) else sorted(items, key=place)

    def _leaf(self, step: Step, owner: Struct, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._names.member_id(value, step) if name in MEMBER_IDS else self._names.text(value)
        if isinstance(value, bytes) and name in ASSIGNMENTS:
            return assignment(self._names.data(value))
        if isinstance(value, bytes):
            return self._names.topic_id(value, owner, step) if name == "topic_id" else self._names.data(value)
        if name in PRODUCER_IDS and isinstance(value, int):
            return self._names.producer_id(value, step)
        if name == "session_id":
            return self._names.session_id(value, step)
        return without_now(value)


def assignment(data: bytes) -> Any:
    """A consumer's assignment, sorted: Kafka lists topics in any order where it converts an assignment itself."""
    try:
        version = int.from_bytes(data[:2], "big", signed=True)
        decoded = decode(ConsumerProtocolAssignment, min(version, LATEST_ASSIGNMENT), data[2:])
    except (ProtocolError, ValueError):
        return data
    topics = sorted((each.topic, list(each.partitions)) for each in decoded.assigned_partitions)
    return [version, topics, decoded.user_data]


def without_now(value: Any) -> Any:
    """The value, or "now" for a time near now."""
    if isinstance(value, int) and abs(value - time.time() * 1000) < NOW_WITHIN_MS:
        return "now"
    return value


def plain_times(batches: list[Any]) -> list[Any]:
    """Batches without times near now."""
    return [
        {key: without_now(value) for key, value in batch.items()} if isinstance(batch, dict) else batch
        for batch in batches
    ]


def _is_foreign(item: Any) -> bool:
    """Whether an element belongs to another sequence, or to the brokers themselves."""
    text = repr(item)
    return PREFIX not in text and not item.get("error_code")


def _merged(topics: list[Any], name: str, partitions: str, index: str) -> list[Any]:
    """Each topic once, sorted: the order depends on the broker's hash tables."""
    merged: dict[tuple[str, bytes], list[Any]] = {}
    for topic in topics:
        merged.setdefault((topic[name], topic.get("topic_id", b"")), []).extend(topic[partitions])
    return [
        {name: known, "topic_id": topic_id, partitions: sorted(answers, key=lambda answer: answer[index])}
        for (known, topic_id), answers in sorted(merged.items())
    ]
