"""FindCoordinator on a single broker, which is every coordinator, and the classic group protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.broker import AUTHORIZED_OPERATIONS_OMITTED
from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.kafka_apis.authorized_operations import GROUP_OPERATIONS
from barnabas.broker.metadata.internal_topics import GROUP, TRANSACTION, partition_for
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    SyncGroupRequest,
)
from tests.broker.broker_fixture import DIALLED_HOST, DIALLED_PORT, NODE_ID, WAITS, InProcessBroker, Wait
from tests.broker.cluster_images import election, fencing, topic_records
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.member_broker import Cluster
from tests.support.difference import Like

SHARE = 2


def test_version_0_supports_only_groups(broker: InProcessBroker) -> None:
    here = FindCoordinatorResponse(node_id=NODE_ID, host=DIALLED_HOST, port=DIALLED_PORT)
    assert broker.client(version=0) >> FindCoordinatorRequest(key="g") << here


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", [1, 3])
def test_a_single_key_has_its_own_response_fields(
    broker: InProcessBroker, version: int, key_type: int
) -> None:
    asked = FindCoordinatorRequest(key="k", key_type=key_type)
    here = FindCoordinatorResponse(
        error_message="NONE", node_id=NODE_ID, host=DIALLED_HOST, port=DIALLED_PORT, coordinators=[]
    )
    assert broker.client(version=version) >> asked << here


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", [4, 6])
def test_each_of_many_keys_has_its_own_result(broker: InProcessBroker, version: int, key_type: int) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=key_type)
    here = {"node_id": NODE_ID, "host": DIALLED_HOST, "port": DIALLED_PORT, "error_code": ErrorCode.NONE}
    answer = Like(
        coordinators=[Like(key="a", error_message="", **here), Like(key="b", error_message="", **here)]
    )
    assert broker.client(version=version) >> asked << answer


def test_without_keys_there_are_no_coordinators(broker: InProcessBroker) -> None:
    assert broker.client(version=4) >> FindCoordinatorRequest() << FindCoordinatorResponse()


@pytest.mark.parametrize("key_type", [SHARE, 3, -1])
def test_unsupported_coordinator_types(broker: InProcessBroker, key_type: int) -> None:
    client = broker.client(version=3)
    nobody = {"error_code": ErrorCode.INVALID_REQUEST, "node_id": -1, "host": "", "port": -1}
    assert client >> FindCoordinatorRequest(key="k", key_type=key_type) << Like(**nobody)
    client = broker.client(version=6)
    asked = FindCoordinatorRequest(coordinator_keys=["k"], key_type=key_type)
    assert client >> asked << Like(coordinators=[Like(key="k", **nobody)])


def test_the_advertised_address_is_returned(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"advertised.listeners": "PLAINTEXT://kafka.example:19092"})
    asked = FindCoordinatorRequest(coordinator_keys=["g"])
    answer = Like(coordinators=[Like(host="kafka.example", port=19092)])
    assert broker.client(version=4) >> asked << answer
    broker.kill()


# ---- the classic group protocol


SESSION_S = 10


def joining(member_id: str = "", **fields: object) -> JoinGroupRequest:
    asked = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_S * 1000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    for name, value in fields.items():
        setattr(asked, name, value)
    return asked


def with_coordinator(broker: InProcessBroker) -> InProcessBroker:
    broker.client(version=4).ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    return broker


def member_of(broker: InProcessBroker) -> tuple[str, int]:
    """The id and the generation of the only member of the group g."""
    client = broker.client(version=0)
    assert client >> joining() >> Wait(4) << Like(error_code=ErrorCode.NONE)
    described = broker.client(version=0).ask(DescribeGroupsRequest(groups=["g"]))
    assert isinstance(described, DescribeGroupsResponse)
    return described.groups[0].members[0].member_id, 1


@pytest.mark.parametrize(("version", "nothing"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_an_empty_or_null_protocol(broker: InProcessBroker, version: int, nothing: str | None) -> None:
    with_coordinator(broker)
    asked = joining(group_id="")
    refused = Like(error_code=ErrorCode.INVALID_GROUP_ID, protocol_name=nothing, generation_id=-1)
    assert broker.client(version=version) >> asked << refused


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeouts_are_bounded(broker: InProcessBroker, timeout_ms: int) -> None:
    with_coordinator(broker)
    asked = joining(session_timeout_ms=timeout_ms, member_id="m")
    refused = Like(error_code=ErrorCode.INVALID_SESSION_TIMEOUT, member_id="m")
    assert broker.client(version=9) >> asked << refused


def test_a_join_waits_and_returns_a_generation(broker: InProcessBroker) -> None:
    client = with_coordinator(broker).client(version=9)
    first = client.ask(joining())
    assert isinstance(first, JoinGroupResponse)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    member = first.member_id
    assert client >> joining(member) << WAITS
    assert client >> Wait(3) << Like(error_code=0, leader=member, member_id=member, generation_id=1)
    syncing = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"a")],
    )
    assert broker.client(version=5) >> syncing << Like(error_code=0, assignment=b"a", protocol_name="range")
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    assert broker.client(version=4) >> beat << HeartbeatResponse()


def test_version_0_has_no_rebalance_timeout(broker: InProcessBroker) -> None:
    member_of(with_coordinator(broker))
    (shard,) = [each for each in broker.coordinators.group_runtime.shards() if len(each.groups)]
    group = shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert group.rebalance_timeout_ms() == SESSION_S * 1000


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_names_its_protocol(broker: InProcessBroker, missing: str) -> None:
    asked = SyncGroupRequest(
        group_id="g", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
    )
    setattr(asked, missing, None)
    refused = Like(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert broker.client(version=5) >> asked << refused


def test_before_version_3_one_member_leaves(broker: InProcessBroker) -> None:
    member, _ = member_of(with_coordinator(broker))
    client = broker.client(version=2)
    nobody = LeaveGroupRequest(group_id="g", member_id="nobody")
    assert client >> nobody << LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, members=[])
    assert client >> LeaveGroupRequest(group_id="g", member_id=member) << LeaveGroupResponse(members=[])
    no_group = LeaveGroupRequest(group_id="none", member_id=member)
    assert client >> no_group << Like(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def test_from_version_3_on_each_leaving_member_has_a_result(broker: InProcessBroker) -> None:
    member, _ = member_of(with_coordinator(broker))
    named = LeaveGroupRequest.MemberIdentity
    asked = LeaveGroupRequest(group_id="g", members=[named(member_id=member), named(member_id="nobody")])
    left = [
        Like(member_id=member, error_code=0),
        Like(member_id="nobody", error_code=ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert broker.client(version=5) >> asked << Like(error_code=0, members=left)
    asked.group_id = "none"
    unknown = [Like(error_code=ErrorCode.UNKNOWN_MEMBER_ID)] * 2
    assert broker.client(version=5) >> asked << Like(error_code=0, members=unknown)


def test_an_empty_group_id_is_rejected(broker: InProcessBroker) -> None:
    with_coordinator(broker)
    refused = Like(error_code=ErrorCode.INVALID_GROUP_ID)
    for asked in (SyncGroupRequest(), HeartbeatRequest(), LeaveGroupRequest()):
        assert broker.client(version=2) >> asked << refused


def test_groups_are_listed_described_and_deleted(broker: InProcessBroker) -> None:
    member, _ = member_of(with_coordinator(broker))
    listed = [Like(group_id="g", protocol_type="consumer", group_state="CompletingRebalance")]
    assert broker.client(version=5) >> ListGroupsRequest() << Like(error_code=0, groups=listed)
    asked = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    described = [
        Like(group_id="g", error_code=0, authorized_operations=GROUP_OPERATIONS, error_message=None),
        Like(group_id="h", error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="Dead"),
    ]
    assert broker.client(version=6) >> asked << Like(groups=described)
    asked.include_authorized_operations = False
    described[0] = Like(authorized_operations=AUTHORIZED_OPERATIONS_OMITTED)
    assert broker.client(version=6) >> asked << Like(groups=described)
    deleting = DeleteGroupsRequest(groups_names=["g", "h", "g"])
    results = [
        Like(group_id="g", error_code=ErrorCode.NON_EMPTY_GROUP),
        Like(group_id="h", error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert broker.client(version=2) >> deleting << Like(results=results)
    broker.client(version=2).ask(LeaveGroupRequest(group_id="g", member_id=member))
    results[0] = Like(group_id="g", error_code=0)
    assert broker.client(version=2) >> deleting << Like(results=results)
    assert broker.client(version=5) >> ListGroupsRequest() << Like(groups=[])


# ---- coordinators in a cluster


def find(*keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


def test_members_of_a_cluster_name_the_leader_of_the_keys_partition(broker: InProcessBroker) -> None:
    cluster = Cluster(broker)
    cluster.commit(*topic_records("__consumer_offsets", [1, 2, 3, 4, -1]))
    keys = {partition_for(key, 5): key for key in map(str, range(100))}
    names = [keys[index] for index in range(5)]
    nobody = Like(node_id=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = [Like(node_id=1, host="b1", port=9000), Like(node_id=2, host="b2", port=9000)]
    client = broker.client(4)
    assert client >> find(*names) << Like(coordinators=[*found, nobody, nobody, nobody])
    cluster.commit(fencing(2, fenced=True), election("__consumer_offsets", 3, 1))
    assert client >> find(*names) << Like(coordinators=[found[0], nobody, nobody, found[0], nobody])


def test_members_have_the_controller_create_the_topic_of_a_coordinator(broker: InProcessBroker) -> None:
    cluster = Cluster(broker)
    nobody = Like(coordinators=[Like(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)])
    assert broker.client(4) >> find("g", key_type=1) << nobody
    ((request, context),) = cluster.created
    assert [topic.name for topic in request.topics] == ["__transaction_state"]
    assert context is None


# ---- authorization


G, DENIED = AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_coordinators_are_found_of_what_may_be_described(guarded: GuardedBroker) -> None:
    guarded.allow(AclOperation.DESCRIBE, G, "mine")
    asked = FindCoordinatorRequest(coordinator_keys=["mine", "yours"])
    found = [Like(key="mine", error_code=0), Like(key="yours", error_code=DENIED, node_id=-1)]
    assert guarded.client(version=4) >> asked << Like(coordinators=found)
    assert guarded.client(version=3) >> FindCoordinatorRequest(key="yours") << Like(error_code=DENIED)


def test_a_denied_key_creates_no_topic(guarded: GuardedBroker) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["x"], key_type=TRANSACTION)
    denied = Like(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert guarded.client(version=4) >> asked << Like(coordinators=[denied])
    assert not guarded.broker.image.topics


def test_the_coordinators_of_share_groups_are_for_brokers(guarded: GuardedBroker) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"], key_type=SHARE)
    denied = Like(coordinators=[Like(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
    assert guarded.client(version=6) >> asked << denied
    guarded.allow(AclOperation.CLUSTER_ACTION)
    assert guarded.client(version=6) >> asked << Like(coordinators=[Like(error_code=0)])


def test_members_need_read(guarded: GuardedBroker) -> None:
    client = guarded.client(version=4)
    assert client >> HeartbeatRequest(group_id="g", member_id="m") << Like(error_code=DENIED)
    assert client >> SyncGroupRequest(group_id="g", member_id="m") << Like(error_code=DENIED)
    assert client >> JoinGroupRequest(group_id="g") << Like(error_code=DENIED, protocol_name="")
    assert (
        guarded.client(version=7)
        >> JoinGroupRequest(group_id="g")
        << Like(error_code=DENIED, protocol_name=None)
    )
    assert client >> LeaveGroupRequest(group_id="g") << Like(error_code=DENIED, members=[])
    incomplete = Like(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert guarded.client(version=5) >> SyncGroupRequest(group_id="g", member_id="m") << incomplete
    guarded.allow(AclOperation.READ, G, "g")
    allowed = Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert client >> HeartbeatRequest(group_id="g", member_id="m") << allowed


def test_described_groups_are_those_that_may_be_and_know_what_the_client_may(guarded: GuardedBroker) -> None:
    guarded.admin(version=4).ask(FindCoordinatorRequest(coordinator_keys=["mine"]))
    guarded.allow(AclOperation.DELETE, G, "mine")
    asked = DescribeGroupsRequest(groups=["mine", "yours"], include_authorized_operations=True)
    bits = 1 << AclOperation.DELETE | 1 << AclOperation.DESCRIBE
    expected = [
        Like(group_id="yours", error_code=DENIED, authorized_operations=AUTHORIZED_OPERATIONS_OMITTED),
        Like(group_id="mine", error_code=0, authorized_operations=bits),
    ]
    assert guarded.client(version=5) >> asked << Like(groups=expected)


def test_deletions_are_answered_for_each_group(guarded: GuardedBroker) -> None:
    guarded.admin(version=4).ask(FindCoordinatorRequest(coordinator_keys=["mine"]))
    guarded.allow(AclOperation.DELETE, G, "mine")
    asked = DeleteGroupsRequest(groups_names=["yours", "mine", "yours"])
    expected = [
        Like(group_id="mine", error_code=ErrorCode.GROUP_ID_NOT_FOUND),
        Like(group_id="yours", error_code=DENIED),
    ]
    assert guarded.client(version=2) >> asked << Like(results=expected)


def test_groups_are_listed_that_may_be_described_or_all_with_the_cluster(guarded: GuardedBroker) -> None:
    guarded.admin(version=4).ask(FindCoordinatorRequest(coordinator_keys=["mine"]))
    for group in ("mine", "yours"):
        joined = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="p", metadata=b"")],
        )
        assert guarded.admin(version=0) >> joined << WAITS >> Wait(10) << Like(error_code=0)
    client = guarded.client(version=2)
    assert client >> ListGroupsRequest() << Like(error_code=0, groups=[])
    guarded.allow(AclOperation.DESCRIBE, G, "mine")
    assert client >> ListGroupsRequest() << Like(groups=[Like(group_id="mine")])
    guarded.allow(AclOperation.DESCRIBE)
    assert client >> ListGroupsRequest() << Like(groups=[Like(), Like()])
