from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.commits import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.messages.groups import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse
from barnabas.protocol.messages.offsets import ListOffsetsResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]
START, END = 10, 20


def listed(*groups: tuple[str, str, str, str]) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=name, group_type=kind, protocol_type=protocol, group_state=state
            )
            for name, kind, protocol, state in groups
        ]
    )


GROUPS = listed(
    ("old", "classic", "consumer", "Stable"),
    ("simple", "classic", "", "Empty"),
    ("connect", "classic", "connect", "Stable"),
    ("new", "consumer", "consumer", "Stable"),
    ("queue", "share", "share", "Stable"),
)


def consumer_groups(request: Any, version: int) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse
    name = request.group_ids[0]
    if name != "new":
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return response(groups=[response.DescribedGroup(group_id=name, error_code=code, error_message="No.")])
    partitions = response.TopicPartitions(topic_name="t", partitions=[1, 0])
    member = response.Member(
        member_id="m",
        client_id="c",
        client_host="/h",
        member_epoch=3,
        assignment=response.Assignment(topic_partitions=[partitions]),
        target_assignment=response.Assignment(topic_partitions=[partitions]),
        member_type=1,
    )
    group = response.DescribedGroup(
        group_id=name,
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=3,
        assignor_name="uniform",
        members=[member],
    )
    group.members = [member]
    return response(groups=[group])


def classic_groups(request: Any, version: int) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse
    name = request.groups[0]
    states = {"old": "Stable", "simple": "Empty", "connect": "Stable", "busy": "PreparingRebalance"}
    if name not in states:
        code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
        return response(groups=[response.DescribedGroup(error_code=code, group_id=name, group_state="Dead")])
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0])]
    )
    member = response.DescribedGroupMember(
        member_id="m1",
        group_instance_id="static",
        client_id="c1",
        client_host="/h1",
        member_assignment=b"\x00\x03" + encode(assignment, 3),
    )
    group = response.DescribedGroup(
        group_id=name,
        group_state=states[name],
        protocol_type={"simple": "", "connect": "connect"}.get(name, "consumer"),
        protocol_data="range",
        members=[member] if name == "old" else [],
    )
    return response(groups=[group])


def fetched(request: Any, version: int) -> OffsetFetchResponse:
    response = OffsetFetchResponse
    offsets = (
        [] if request.groups[0].group_id not in {"old", "simple", "new"} else [(0, 12), (1, -1), (2, 15)]
    )
    topic = response.OffsetFetchResponseTopics(
        name="t",
        partitions=[
            response.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=offset, metadata=""
            )
            for index, offset in offsets
        ],
    )
    return response(groups=[response.OffsetFetchResponseGroup(group_id="g", topics=[topic])])


def offsets(request: Any, version: int) -> ListOffsetsResponse:
    """Logs start at START and end at END; by time, each second is one record."""
    response = ListOffsetsResponse
    special = {-1: END, -2: START}

    def found(timestamp: int) -> int:
        later = START + timestamp // 1000
        return special.get(timestamp, later if later < END else -1)

    return response(
        topics=[
            response.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    response.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=found(each.timestamp)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.fixture
def grouped(cluster: FakeCluster) -> FakeCluster:
    cluster.topics["t"] = 3
    cluster.on(ApiKey.LIST_GROUPS, GROUPS)
    cluster.on(ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_groups)
    cluster.on(ApiKey.DESCRIBE_GROUPS, classic_groups)
    cluster.on(ApiKey.OFFSET_FETCH, fetched)
    cluster.on(ApiKey.LIST_OFFSETS, offsets)
    cluster.on(ApiKey.OFFSET_COMMIT, OffsetCommitResponse())
    return cluster


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


# ---- wrong command lines


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--list --describe",
        "--list --group a",
        "--list --members",
        "--list --state foo",
        "--list --type foo",
        "--list --group-type foo",
        "--list --consumer --share",
        "--list --consumer --state",
        "--describe",
        "--describe --group a --all-groups",
        "--describe --group a --members --state",
        "--describe --group a --state Stable",
        "--describe --group a --topic t",
        "--describe --group a --type",
        "--describe --group a --to-latest",
        "--delete",
        "--delete --group a --topic t",
        "--delete-offsets --group a",
        "--delete-offsets --group a --group b --topic t",
        "--reset-offsets --group a --topic t",
        "--reset-offsets --topic t --to-latest",
        "--reset-offsets --group a --to-latest",
        "--reset-offsets --group a --topic t --all-topics --to-latest",
        "--reset-offsets --group a --topic t --to-latest --to-earliest",
        "--reset-offsets --group a --topic t --to-latest --execute --dry-run",
        "--reset-offsets --group a --topic t:x --to-latest",
        "--reset-offsets --group a --topic t --to-datetime yesterday",
        "--reset-offsets --group a --topic t --by-duration 1h",
        "--reset-offsets --group a --from-file /nowhere",
        "--delete --group a --execute",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas("groups", *line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert not cluster.requests


def test_a_broker_without_groups_is_reported(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.without(ApiKey.LIST_GROUPS)
    result = barnabas("groups", "--list")
    assert result.exit_code == 1
    said = f"error: the broker at {cluster.bootstrap} does not serve ListGroups (API key 16)\n"
    assert result.stderr == said


# ---- --list


def test_consumer_groups_are_listed(barnabas: Barnabas, grouped: FakeCluster) -> None:
    assert barnabas("groups", "--list").stdout == "new\nold\nsimple\n"
    assert rows(barnabas("groups", "--list", "--type", "--state").stdout) == [
        ["GROUP", "TYPE", "STATE"],
        ["new", "Consumer", "Stable"],
        ["old", "Classic", "Stable"],
        ["simple", "Classic", "Empty"],
    ]


def test_filters_are_applied_by_the_broker(barnabas: Barnabas, grouped: FakeCluster) -> None:
    barnabas("groups", "--list", "--state", "stable, EMPTY", "--type", "classic")
    (request,) = grouped.asked(ApiKey.LIST_GROUPS)
    assert (request.states_filter, request.types_filter) == (["Stable", "Empty"], ["Classic"])


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("--consumer", ["new", "old", "simple"]),
        ("--share", ["queue"]),
        ("--streams", []),
        ("--group-type classic", ["connect", "old", "simple"]),
        ("--protocol consumer", ["new", "old"]),
        ("--group-type classic --protocol connect", ["connect"]),
    ],
)
def test_groups_of_all_types_are_listed(
    barnabas: Barnabas, grouped: FakeCluster, line: str, names: list[str]
) -> None:
    found = rows(barnabas("groups", "--list", *line.split()).stdout)
    assert found[0] == ["GROUP", "TYPE", "PROTOCOL"]
    assert [row[0] for row in found[1:]] == names


def test_all_brokers_are_asked() -> None:
    from barnabas.cli.admin.calls.groups import list_groups
    from barnabas.cli.admin.client import AdminClient
    from barnabas.cli.admin.settings import ClientSettings, parse_bootstrap

    with FakeCluster(3) as cluster:
        cluster.on(ApiKey.LIST_GROUPS, GROUPS, listed(("more", "classic", "consumer", "Empty")), GROUPS)
        with AdminClient(ClientSettings(parse_bootstrap(cluster.bootstrap))) as client:
            assert len(list_groups(client)) == 6
        assert cluster.who(ApiKey.LIST_GROUPS) == [1, 2, 3]


# ---- --describe


def test_the_offsets_of_a_group(barnabas: Barnabas, grouped: FakeCluster) -> None:
    heads = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert rows(barnabas("groups", "--describe", "--group", "old").stdout) == [
        heads.split(),
        ["old", "t", "0", "12", "20", "8", "m1", "/h1", "c1"],
        ["old", "t", "2", "15", "20", "5", "-", "-", "-"],
    ]
    found = rows(barnabas("groups", "--describe", "--group", "new", "--verbose").stdout)
    assert found[0][3] == "LEADER-EPOCH"
    assert [row[2:7] for row in found[1:]] == [
        ["0", "-", "12", "20", "8"],
        ["1", "-", "-", "20", "-"],
        ["2", "-", "15", "20", "5"],
    ]


def test_a_deleted_topic_has_no_log_end_offset(barnabas: Barnabas, grouped: FakeCluster) -> None:
    del grouped.topics["t"]
    found = rows(barnabas("groups", "--describe", "--group", "simple").stdout)
    assert found[1] == ["simple", "t", "0", "12", "-", "-", "-", "-", "-"]


def test_the_members_of_a_group(barnabas: Barnabas, grouped: FakeCluster) -> None:
    found = rows(barnabas("groups", "--describe", "--group", "old", "--members").stdout)
    assert found[1] == ["old", "m1", "static", "/h1", "c1", "1"]
    found = rows(barnabas("groups", "--describe", "--group", "new", "--members", "--verbose").stdout)
    assert found[1] == ["new", "m", "/h", "c", "2", "3", "t:0,1", "3", "t:0,1"]


def test_the_states_of_groups(barnabas: Barnabas, grouped: FakeCluster) -> None:
    found = rows(barnabas("groups", "--describe", "--group", "new", "--state", "--verbose").stdout)
    assert found[1] == ["new", grouped.bootstrap, "(1)", "uniform", "Stable", "4", "3", "1"]
    result = barnabas("groups", "--describe", "--group", "simple", "--state")
    assert result.stderr == "Consumer group 'simple' has no active members.\n"
    assert "is rebalancing" in barnabas("groups", "--describe", "--group", "busy").stderr


@pytest.mark.parametrize("newest", [6, 5])
def test_an_unknown_group_is_an_error(barnabas: Barnabas, grouped: FakeCluster, newest: int) -> None:
    from barnabas.protocol.schema import VersionRange

    grouped.served[ApiKey.DESCRIBE_GROUPS] = VersionRange(0, newest)
    result = barnabas("groups", "--describe", "--group", "nope", "--group", "old")
    assert result.exit_code == 1
    assert "GROUP_ID_NOT_FOUND" in result.stderr
    assert result.stdout, "the other is shown all the same"


def test_a_group_of_another_type(barnabas: Barnabas, grouped: FakeCluster) -> None:
    result = barnabas("groups", "--describe", "--group", "connect")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "its protocol type is 'connect'" in result.stderr


def test_descriptions_as_json(barnabas: Barnabas, grouped: FakeCluster) -> None:
    line = ("groups", "--describe", "--group", "old", "--json")
    found = [json.loads(each) for each in barnabas(*line).stdout.splitlines()]
    assert [each["lag"] for each in found] == [8, 5]
    (member,) = [json.loads(each) for each in barnabas(*line, "--members").stdout.splitlines()]
    assert member["assignment"] == {"t": [0]}
    assert member["targetAssignment"] is None
    (state,) = [json.loads(each) for each in barnabas(*line, "--state").stdout.splitlines()]
    assert (state["state"], state["assignor"], state["members"]) == ("Stable", "range", 1)


# ---- --reset-offsets


def committed(cluster: FakeCluster) -> dict[int, int]:
    (request,) = cluster.asked(ApiKey.OFFSET_COMMIT)
    assert cluster.versions(ApiKey.OFFSET_COMMIT) == [9], "from version 10 on topics have ids"
    (topic,) = request.topics
    return {each.partition_index: each.committed_offset for each in topic.partitions}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--topic t --to-earliest", {0: 10, 1: 10, 2: 10}),
        ("--topic t:0,2 --to-latest", {0: 20, 2: 20}),
        ("--all-topics --to-latest", {0: 20, 2: 20}),
        ("--topic t --to-current", {0: 12, 1: 20, 2: 15}),
        ("--topic t --to-offset 13", {0: 13, 1: 13, 2: 13}),
        ("--topic t --to-offset 0", {0: 10, 1: 10, 2: 10}),
        ("--topic t --to-offset 99", {0: 20, 1: 20, 2: 20}),
        ("--topic t:0,2 --shift-by 3", {0: 15, 2: 18}),
        ("--topic t:0,2 --shift-by -99", {0: 10, 2: 10}),
        ("--topic t:0 --to-datetime 1970-01-01T00:00:04.000", {0: 14}),
        ("--topic t:0 --to-datetime 2033-01-01T00:00:00.000", {0: 20}),
        ("--topic t:0 --by-duration PT1H", {0: 20}),
    ],
)
def test_each_target_of_a_reset(
    barnabas: Barnabas, grouped: FakeCluster, line: str, expected: dict[int, int]
) -> None:
    result = barnabas("groups", "--reset-offsets", "--group", "simple", "--execute", *line.split())
    assert result.exit_code == 0
    assert committed(grouped) == expected
    assert [[int(row[2]), int(row[3])] for row in rows(result.stdout)[1:]] == [
        list(each) for each in expected.items()
    ]


def test_nothing_is_committed_without_execute(barnabas: Barnabas, grouped: FakeCluster) -> None:
    line = ("groups", "--reset-offsets", "--group", "simple", "--topic", "t", "--to-latest")
    result = barnabas(*line)
    assert result.exit_code == 0
    assert "No action will be performed" in result.stderr
    assert barnabas(*line, "--dry-run").stderr == ""
    assert not grouped.asked(ApiKey.OFFSET_COMMIT)


def test_the_offsets_of_an_unknown_group_can_be_reset(barnabas: Barnabas, grouped: FakeCluster) -> None:
    line = ("--reset-offsets", "--group", "unheard-of", "--topic", "t", "--to-latest", "--execute")
    assert barnabas("groups", *line).exit_code == 0
    assert committed(grouped) == {0: 20, 1: 20, 2: 20}


def test_a_group_with_members_is_not_reset(barnabas: Barnabas, grouped: FakeCluster) -> None:
    result = barnabas("groups", "--reset-offsets", "--all-groups", "--topic", "t", "--to-latest", "--execute")
    assert result.exit_code == 1
    assert result.stderr.count("the current state is Stable") == 2
    assert [row[0] for row in rows(result.stdout)[1:]] == ["simple"] * 3


def test_a_partition_without_an_offset_cannot_be_shifted(barnabas: Barnabas, grouped: FakeCluster) -> None:
    result = barnabas("groups", "--reset-offsets", "--group", "simple", "--topic", "t", "--shift-by", "1")
    assert result.exit_code == 1
    assert "Cannot shift offset for partition t-1" in result.stderr


def test_offsets_are_exported_and_reset_from_a_file(
    barnabas: Barnabas, grouped: FakeCluster, tmp_path: Path
) -> None:
    line = ("groups", "--reset-offsets", "--group", "simple")
    csv = barnabas(*line, "--topic", "t", "--to-earliest", "--export").stdout
    assert csv == "t,0,10\nt,1,10\nt,2,10\n"
    file = tmp_path / "plan.csv"
    file.write_text(csv.replace("10", "11"))
    assert barnabas(*line, "--from-file", str(file), "--execute").exit_code == 0
    assert committed(grouped) == {0: 11, 1: 11, 2: 11}
    file.write_text("simple,t,0,12\n\nother,t,0,13\n")
    result = barnabas(*line, "--group", "other", "--from-file", str(file), "--dry-run")
    assert [row[::3] for row in rows(result.stdout)[1:]] == [["simple", "12"], ["other", "13"]]
    result = barnabas("groups", "--reset-offsets", "--group", "x", "--from-file", str(file), "--dry-run")
    assert "No reset plan for group x found" in result.stderr


@pytest.mark.parametrize("text", ["t,0", "t,x,1", "t,0,-1", "g,t,0,1,2", "\xff"])
def test_invalid_plan_files_are_rejected(barnabas: Barnabas, tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes(text.encode("latin-1"))
    result = barnabas("groups", "--reset-offsets", "--group", "g", "--from-file", str(file), "--dry-run")
    assert result.exit_code == 1
    assert str(file) in result.stderr


def test_a_rejected_commit_is_an_error(barnabas: Barnabas, grouped: FakeCluster) -> None:
    response = OffsetCommitResponse
    partition = response.OffsetCommitResponsePartition(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    topic = response.OffsetCommitResponseTopic(name="t", partitions=[partition])
    grouped.on(ApiKey.OFFSET_COMMIT, response(topics=[topic]))
    line = ("--reset-offsets", "--group", "simple", "--topic", "t", "--to-latest", "--execute")
    result = barnabas("groups", *line)
    assert result.exit_code == 1
    assert "UNKNOWN_MEMBER_ID" in result.stderr


# ---- --delete, --delete-offsets


def test_groups_are_deleted(barnabas: Barnabas, grouped: FakeCluster) -> None:
    def deleted(request: Any, version: int) -> DeleteGroupsResponse:
        name = request.groups_names[0]
        code = ErrorCode.NON_EMPTY_GROUP if name == "old" else 0
        return DeleteGroupsResponse(
            results=[DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=code)]
        )

    grouped.on(ApiKey.DELETE_GROUPS, deleted)
    result = barnabas("groups", "--delete", "--group", "simple")
    said = "Deletion of requested consumer groups ('simple') was successful.\n"
    assert (result.exit_code, result.stdout) == (0, said)
    result = barnabas("groups", "--delete", "--group", "simple", "--group", "old", "--json")
    assert result.exit_code == 1
    assert "NON_EMPTY_GROUP" in result.stderr
    errors = [json.loads(line)["error"] for line in result.stdout.splitlines()]
    assert errors == [None, "NON_EMPTY_GROUP"]


def test_offsets_are_deleted(barnabas: Barnabas, grouped: FakeCluster) -> None:
    response = OffsetDeleteResponse
    partitions = [
        response.OffsetDeleteResponsePartition(partition_index=0),
        response.OffsetDeleteResponsePartition(
            partition_index=1, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        ),
    ]
    answer = response(topics=[response.OffsetDeleteResponseTopic(name="t", partitions=partitions)])
    grouped.on(ApiKey.OFFSET_DELETE, answer, response(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    result = barnabas("groups", "--delete-offsets", "--group", "old", "--topic", "t:0,1", "--topic", "gone")
    assert result.exit_code == 1
    assert rows(result.stdout)[1:] == [["gone", "-", "Error"], ["t", "0", "Successful"], ["t", "1", "Error"]]
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in result.stderr
    result = barnabas("groups", "--delete-offsets", "--group", "old", "--topic", "t")
    assert (result.exit_code, result.stdout) == (1, "")
    (topic,) = grouped.asked(ApiKey.OFFSET_DELETE)[1].topics
    assert [each.partition_index for each in topic.partitions] == [0, 1, 2]


# ---- --validate-regex


def test_regular_expressions(barnabas: Barnabas, cluster: FakeCluster) -> None:
    result = barnabas("groups", "--validate-regex", "a.*")
    assert (result.exit_code, result.stdout) == (0, "The regular expression `a.*` is valid.\n")
    result = barnabas("groups", "--validate-regex", "a(")
    assert (result.exit_code, result.stdout) == (
        1,
        "The regular expression `a(` is invalid: missing ): a(.\n",
    )
    assert not cluster.requests
