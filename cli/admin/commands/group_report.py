"""The output of `barnabas groups --describe`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.cli.admin.calls.groups import Committed, Group, Member, describe_group, fetch_offsets
from barnabas.cli.admin.calls.offsets import Offset, list_offsets
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import NotReachableError, ServerError, UnsupportedApiError
from barnabas.cli.admin.options import ParsedOptions
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition, by_topic
from barnabas.cli.admin.shapes import GroupMemberRow, GroupOffsetRow, GroupRow
from barnabas.protocol.messages.offsets import LATEST

_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_EMPTY: Final = "Empty"


def describe_groups(client: AdminClient, out: Output, names: Sequence[str], given: ParsedOptions) -> None:
    """Describes each group, sorted; an unknown group does not stop the others."""
    show = _show_members if given.has("members") else (_show_state if given.has("state") else _show_offsets)
    for name in sorted(names):
        try:
            with out.working(f"Reading group {name}"):
                group = describe_group(client, name)
        except UnsupportedApiError:
            raise
        except ServerError as error:
            out.failed(str(error))
            continue
        if group.state == _EMPTY:
            out.note(f"Consumer group '{name}' has no active members.")
        elif group.state in _REBALANCING:
            out.note(f"Warning: Consumer group '{name}' is rebalancing.")
        show(client, out, group, is_verbose=given.has("verbose"))


# ---- offsets


def _show_offsets(client: AdminClient, out: Output, group: Group, *, is_verbose: bool) -> None:
    rows = offset_rows(client, out, group)
    for row in rows:
        out.row(row)
    heads = ["GROUP", "TOPIC", "PARTITION"] + ["LEADER-EPOCH"] * is_verbose
    heads += ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    if rows:
        out.line()
        out.table(heads, [_offset_cells(row, is_verbose=is_verbose) for row in rows])


def _offset_cells(row: GroupOffsetRow, *, is_verbose: bool) -> list[object]:
    epoch: list[object] = [row.leader_epoch] if is_verbose else []
    numbers = [row.current_offset, row.log_end_offset, row.lag]
    return [row.group, row.topic, row.partition, *epoch, *numbers, row.consumer_id, row.host, row.client_id]


def offset_rows(client: AdminClient, out: Output, group: Group) -> list[GroupOffsetRow]:
    """The assigned partitions, of members with many first; then those with a committed offset only."""
    committed = fetch_offsets(client, group.group)
    owners: dict[TopicPartition, Member] = {}
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        owners |= dict.fromkeys(member.assignment, member)
    wanted = [*owners, *(each for each in committed if each not in owners)]
    ends = _ends(client, out, wanted)
    return [
        _offset_row(group.group, each, committed.get(each), ends.get(each), owners.get(each))
        for each in wanted
    ]


def _ends(
    client: AdminClient, out: Output, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The log end offsets; without partitions that are deleted or whose leader is missing or does not answer."""
    found = list_offsets(client, dict.fromkeys(partitions, LATEST))
    for offset in found.values():
        if isinstance(offset, NotReachableError):
            out.failed(f"no log end of {offset}")
    return {each: offset.offset for each, offset in found.items() if isinstance(offset, Offset)}


def _offset_row(
    group: str, partition: TopicPartition, committed: Committed | None, end: int | None, owner: Member | None
) -> GroupOffsetRow:
    offset = None if committed is None else committed.offset
    return GroupOffsetRow(
        group,
        partition.topic,
        partition.partition,
        offset,
        None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        end,
        None if offset is None or end is None else end - offset,
        None if owner is None else owner.member_id,
        None if owner is None else owner.host,
        None if owner is None else owner.client_id,
    )


# ---- members


def _show_members(_: AdminClient, out: Output, group: Group, *, is_verbose: bool) -> None:
    for member in group.members:
        out.row(_member_row(group.group, member))
    has_instances = any(member.instance_id for member in group.members)
    heads = (
        ["GROUP", "CONSUMER-ID"]
        + ["GROUP-INSTANCE-ID"] * has_instances
        + ["HOST", "CLIENT-ID", "#PARTITIONS"]
    )
    if is_verbose:
        heads += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        heads += ["UPGRADED"] * _is_upgrading(group)
    rows = [
        _member_cells(group, each, has_instances=has_instances, is_verbose=is_verbose)
        for each in group.members
    ]
    if rows:
        out.line()
        out.table(heads, rows)


def _is_upgrading(group: Group) -> bool:
    """Whether a group of the consumer protocol still has classic members (KIP-1099)."""
    return any(member.is_upgraded is False for member in group.members)


def _member_cells(group: Group, member: Member, *, has_instances: bool, is_verbose: bool) -> list[object]:
    cells: list[object] = [group.group, member.member_id] + [member.instance_id] * has_instances
    cells += [member.host, member.client_id, len(member.assignment)]
    if is_verbose:
        cells += [member.epoch, _short(member.assignment), member.target_epoch, _short(member.target or ())]
        cells += [str(member.is_upgraded).lower()] * _is_upgrading(group)
    return cells


def _short(partitions: Iterable[TopicPartition]) -> str:
    """`t:0,1;u:0`, as Kafka's tool prints it."""
    return ";".join(
        f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic(partitions).items()
    )


def _member_row(group: str, member: Member) -> GroupMemberRow:
    return GroupMemberRow(
        group,
        member.member_id,
        member.instance_id,
        member.host,
        member.client_id,
        by_topic(member.assignment),
        member.epoch,
        member.target_epoch,
        None if member.target is None else by_topic(member.target),
        member.is_upgraded,
    )


# ---- states


def _show_state(client: AdminClient, out: Output, group: Group, *, is_verbose: bool) -> None:
    address = client.cluster().nodes.get(group.coordinator)
    where = None if address is None else str(address)
    out.row(
        GroupRow(
            group.group,
            group.type,
            None,
            group.state,
            where,
            group.coordinator,
            group.assignor or None,
            len(group.members),
            group.epoch,
            group.target_epoch,
        )
    )
    heads = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    heads += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] * is_verbose
    epochs: list[object] = [group.epoch, group.target_epoch] if is_verbose else []
    coordinator = f"{where}  ({group.coordinator})"
    out.line()
    cells = [group.group, coordinator, group.assignor, group.state, *epochs, len(group.members)]
    out.table([*heads, "#MEMBERS"], [cells])
