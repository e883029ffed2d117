"""`barnabas metadata-quorum`: kafka-metadata-quorum."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from barnabas.cli.admin.calls.cluster import QuorumInfo, QuorumReplica, describe_cluster, describe_quorum
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.options import ParsedOptions, admin_group, flag, session, subcommand
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.shapes import QuorumReplicaRow, QuorumRow
from barnabas.protocol.wire import ZERO_UUID, uuid_to_string

_HEADS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


@admin_group("metadata-quorum", short_help="Show the controllers and their lag.")
def metadata_quorum() -> None:
    """Show the KRaft controllers and their lag in the metadata log: kafka-metadata-quorum.

    \b
    barnabas metadata-quorum --bootstrap-server localhost:9092 describe --status
    """


@subcommand(metadata_quorum, "describe")
@flag("--status", "Show the leader, and the lag of the others.")
@flag("--replication", "Show the log end offset and lag of each voter and observer.")
@flag("--human-readable", "With --replication: print times relative to now.")
def describe(given: ParsedOptions) -> None:
    """Show the state of the metadata quorum."""
    action = given.one_action("status", "replication")
    given.only_with("human-readable", "replication")
    with session(given) as (client, out):
        quorum = describe_quorum(client)
        if quorum.leader is None:
            raise AdminError(f"the leader {quorum.leader_id} is not among the voters")
        if action == "status":
            _show_status(client, out, quorum)
        else:
            _show_replication(out, quorum, is_human=given.has("human-readable"))


def _show_status(client: AdminClient, out: Output, quorum: QuorumInfo) -> None:
    leader = quorum.leader
    assert leader is not None
    last = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    row = QuorumRow(
        describe_cluster(client).cluster_id,
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        leader.log_end_offset - last.log_end_offset,
        _lag_ms(leader, last),
        list(_nodes(quorum, quorum.voters)),
        list(_nodes(quorum, quorum.observers)),
    )
    out.row(row)
    for name, value in zip(row._fields[:6], row[:6], strict=True):
        title = "".join(word.capitalize() for word in name.split("_"))
        out.line(f"{title + ':':<24}{value}")
    out.line(f"{'CurrentVoters:':<24}{_text(row.current_voters)}")
    out.line(f"{'CurrentObservers:':<24}{_text(row.current_observers)}")


def _lag_ms(leader: QuorumReplica, last: QuorumReplica) -> int:
    if last == leader:
        return 0
    times = (leader.last_caught_up_timestamp, last.last_caught_up_timestamp)
    return -1 if -1 in times else times[0] - times[1]


def _nodes(quorum: QuorumInfo, replicas: Iterable[QuorumReplica]) -> Iterator[dict[str, Any]]:
    for each in replicas:
        directory = None if each.directory_id == ZERO_UUID else uuid_to_string(each.directory_id)
        yield {"id": each.id, "directoryId": directory, "endpoints": quorum.endpoints.get(each.id, [])}


def _text(nodes: list[dict[str, Any]]) -> str:
    """The JSON of Kafka's tool: absent values are left out."""
    return json.dumps(
        [{key: value for key, value in node.items() if value not in (None, [])} for node in nodes]
    )


def _show_replication(out: Output, quorum: QuorumInfo, *, is_human: bool) -> None:
    rows = list(_rows(quorum))
    for row in rows:
        out.row(row)
    now_ms = round(time.time() * 1000)
    cells = [
        (*row[:4], _time(row[4], now_ms, is_human=is_human), _time(row[5], now_ms, is_human=is_human), row[6])
        for row in rows
    ]
    out.table(_HEADS, cells)


def _rows(quorum: QuorumInfo) -> Iterator[QuorumReplicaRow]:
    leader = quorum.leader
    assert leader is not None
    followers = [voter for voter in quorum.voters if voter.id != leader.id]
    for status, replicas in (("Leader", [leader]), ("Follower", followers), ("Observer", quorum.observers)):
        for each in replicas:
            yield QuorumReplicaRow(
                each.id,
                uuid_to_string(each.directory_id),
                each.log_end_offset,
                leader.log_end_offset - each.log_end_offset,
                each.last_fetch_timestamp,
                each.last_caught_up_timestamp,
                status,
            )


def _time(timestamp_ms: int, now_ms: int, *, is_human: bool) -> int | str:
    return f"{now_ms - timestamp_ms} ms ago" if is_human and timestamp_ms >= 0 else timestamp_ms
