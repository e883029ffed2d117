"""Requests of the rounds of `first_requests`, with the fields of all versions set."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetFetchRequest
from barnabas.protocol.messages.configs import DescribeConfigsRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import FindCoordinatorRequest, JoinGroupRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import AddPartitionsToTxnRequest, TxnOffsetCommitRequest
from barnabas.protocol.wire import Uuid
from tests.conformance.dialogue_client import batch
from tests.conformance.dialogues.members import SUBSCRIBED
from tests.conformance.parity.wire import message

NO_SUCH_ID: Final = bytes(range(16))
"""An id that no topic has."""

MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The id of a member of a consumer group."""


def describing(kind: int, name: str, *keys: str, documented: bool = False) -> Any:
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    return message(
        DescribeConfigsRequest, resources=[wanted], include_synonyms=True, include_documentation=documented
    )


def produce(
    name: str, topic_id: Uuid, *, transactional_id: str | None = None, records: bytes | None = None
) -> Any:
    data = [{"index": 0, "records": batch(b"value") if records is None else records}]
    return message(
        ProduceRequest,
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[{"name": name, "topic_id": topic_id, "partition_data": data}],
    )


def fetch(name: str, topic_id: Uuid, *, session_epoch: int = -1) -> Any:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    wanted = [{"topic": name, "topic_id": topic_id, "partitions": [partition]}]
    return message(FetchRequest, max_wait_ms=0, max_bytes=1 << 20, session_epoch=session_epoch, topics=wanted)


def finding(key: str, kind: int, *more: str) -> Any:
    return FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key, *more])


def joining(group: str, member_id: str = "") -> Any:
    return message(
        JoinGroupRequest,
        group_id=group,
        member_id=member_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": SUBSCRIBED}],
    )


def heartbeat(group: str, topic: str = "t") -> Any:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )


def committing(group: str, name: str, topic_id: Uuid) -> Any:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "said"}
    wanted = [{"name": name, "topic_id": topic_id, "partitions": [partition]}]
    return message(OffsetCommitRequest, group_id=group, topics=wanted)


def fetching(group: str, name: str | None = None, topic_id: Uuid = NO_SUCH_ID) -> Any:
    """An OffsetFetch of one partition, or of all without a topic."""
    one = {"name": name, "partition_indexes": [0, 1]}
    old = None if name is None else [one]
    new = None if name is None else [{**one, "topic_id": topic_id}]
    return message(
        OffsetFetchRequest, group_id=group, topics=old, groups=[{"group_id": group, "topics": new}]
    )


def adding(name: str, producer_id: int, epoch: int, topic: str) -> Any:
    return message(
        AddPartitionsToTxnRequest,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[{"name": topic, "partitions": [0]}],
    )


def txn_committing(name: str, producer_id: int, epoch: int, topic: str) -> Any:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "said"}
    return message(
        TxnOffsetCommitRequest,
        transactional_id=name,
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[{"name": topic, "partitions": [partition]}],
    )
