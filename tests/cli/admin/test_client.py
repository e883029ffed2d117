from __future__ import annotations

from typing import Any

import pytest

from barnabas.cli.admin.client import ANYONE, CONTROLLER, AdminClient, Coordinator, Node
from barnabas.cli.admin.errors import NotReachableError, ServerError, UnsupportedApiError
from barnabas.cli.admin.settings import Address, ClientSettings, parse_bootstrap
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import FindCoordinatorResponse, ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.metadata import DescribeClusterResponse
from tests.cli.admin.fake_broker import CLOSE, LOCALHOST, FakeCluster
from tests.support.ports import held_ports


class ManualClock:
    """A clock that advances only in sleep()."""

    def __init__(self) -> None:
        self.time = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds


def client_of(bootstrap: str, **settings: Any) -> tuple[AdminClient, ManualClock, list[str]]:
    clock, reports = ManualClock(), list[str]()
    client = AdminClient(
        ClientSettings(parse_bootstrap(bootstrap))._replace(**settings), clock=clock, on_wait=reports.append
    )
    return client, clock, reports


def test_the_newest_version_that_both_support_is_used(cluster: FakeCluster, client: AdminClient) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse())
    client.send(ListGroupsRequest())
    client.send(ListGroupsRequest(), versions="0-3")
    assert cluster.versions(ApiKey.LIST_GROUPS) == [5, 3]


def test_transient_errors_are_retried(cluster: FakeCluster) -> None:
    busy = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.on(ApiKey.LIST_GROUPS, *[busy] * 5, ListGroupsResponse())
    client, clock, reports = client_of(cluster.bootstrap)
    assert client.send(ListGroupsRequest()).error_code == 0
    assert len(cluster.asked(ApiKey.LIST_GROUPS)) == 6
    assert 0.08 <= clock.pauses[0] <= 0.12
    assert 0.16 <= clock.pauses[1] <= 0.24
    report = f"the broker at {cluster.bootstrap} answers COORDINATOR_LOAD_IN_PROGRESS; trying for 59 s"
    assert reports == [report], "reported once, after a delay"
    client.close()


def test_retry_pauses_grow_up_to_a_limit(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    client, clock, _ = client_of(cluster.bootstrap, default_api_timeout_ms=10_000)
    answer = client.send(ListGroupsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "the caller gets the last error"
    assert clock.time == pytest.approx(10)
    assert max(clock.pauses) <= 1.2
    client.close()


def test_no_request_is_sent_after_the_pause_that_ends_at_the_deadline(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    client, clock, _ = client_of(cluster.bootstrap, default_api_timeout_ms=10_000)
    monkeypatch.setattr(clock, "sleep", lambda seconds: ManualClock.sleep(clock, seconds * (1 - 1e-9)))
    answer = client.send(ListGroupsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(cluster.asked(ApiKey.LIST_GROUPS)) == len(clock.pauses)
    assert clock.time < 10, "a sleep may end early"
    client.close()


def test_other_error_codes_are_returned_to_the_caller(cluster: FakeCluster, client: AdminClient) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert client.send(ListGroupsRequest()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(cluster.asked(ApiKey.LIST_GROUPS)) == 1


def test_a_lost_connection_is_opened_again(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.LIST_GROUPS, CLOSE, ListGroupsResponse())
    client, clock, reports = client_of(cluster.bootstrap)
    client.send(ListGroupsRequest())
    assert len(cluster.asked(ApiKey.LIST_GROUPS)) == 2
    assert len(clock.pauses) == 1
    assert not reports
    client.close()


def test_attempts_are_limited(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.LIST_GROUPS, CLOSE)
    client, clock, _ = client_of(cluster.bootstrap, retries=2)
    with pytest.raises(NotReachableError, match="closed the connection"):
        client.send(ListGroupsRequest())
    assert len(clock.pauses) == 2
    client.close()


def test_the_first_reachable_bootstrap_server_is_used(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse())
    client, clock, _ = client_of(f"{LOCALHOST}:{held_ports(1)[0]},{cluster.bootstrap}")
    client.send(ListGroupsRequest())
    assert not clock.pauses
    client.close()


def test_no_reachable_bootstrap_server() -> None:
    port = held_ports(1)[0]
    client, clock, reports = client_of(f"{LOCALHOST}:{port}")
    with pytest.raises(
        NotReachableError, match=f"timed out after 60 s: no server answers at {LOCALHOST}:{port}"
    ):
        client.cluster()
    assert clock.time == pytest.approx(60)
    assert reports == [f"no server answers at {LOCALHOST}:{port}: Connection refused; trying for 59 s"]


def test_unknown_hosts_are_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    client, clock, _ = client_of("nowhere:1")
    with pytest.raises(NotReachableError, match="nowhere is an unknown host"):
        client.send(ListGroupsRequest())
    assert not clock.pauses


def test_an_unsupported_api_is_not_retried(cluster: FakeCluster) -> None:
    cluster.without(ApiKey.LIST_GROUPS)
    client, clock, _ = client_of(cluster.bootstrap)
    with pytest.raises(UnsupportedApiError, match="ListGroups"):
        client.send(ListGroupsRequest())
    assert not clock.pauses
    client.close()


def test_an_invalid_response_is_an_error(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.LIST_GROUPS, b"\x00\x00\x00\x05\x00\x00\x00\x02\x00")
    client, _, _ = client_of(cluster.bootstrap)
    with pytest.raises(NotReachableError, match="cannot be decoded"):
        client.send(ListGroupsRequest(), versions="0")
    client.close()


def test_each_request_goes_to_its_broker() -> None:
    with FakeCluster(3) as cluster:
        cluster.coordinator = 2
        cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse())
        client, _, _ = client_of(cluster.bootstrap)
        for target in (ANYONE, CONTROLLER, Node(3), Coordinator("g"), Node(2)):
            client.send(ListGroupsRequest(), target)
        assert cluster.who(ApiKey.LIST_GROUPS) == [1, 1, 3, 2, 2]
        assert client.coordinator_of("g") == 2
        assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 1
        assert sorted(client.cluster().nodes) == [1, 2, 3]
        client.close()


def test_a_moved_coordinator_is_looked_up_again() -> None:
    with FakeCluster(2) as cluster:

        def moved(request: object, version: int) -> ListGroupsResponse:
            cluster.coordinator = 2
            return ListGroupsResponse(error_code=ErrorCode.NOT_COORDINATOR)

        cluster.on(ApiKey.LIST_GROUPS, moved, ListGroupsResponse())
        client, _, _ = client_of(cluster.bootstrap)
        client.send(ListGroupsRequest(), Coordinator("g"))
        assert cluster.who(ApiKey.LIST_GROUPS) == [1, 2]
        client.close()


def test_a_missing_coordinator_is_retried(cluster: FakeCluster) -> None:
    def found(code: int) -> FindCoordinatorResponse:
        coordinator = FindCoordinatorResponse.Coordinator(key="g", node_id=1, error_code=code)
        return FindCoordinatorResponse(coordinators=[coordinator])

    cluster.on(ApiKey.FIND_COORDINATOR, *[found(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 4, found(0))
    client, _, reports = client_of(cluster.bootstrap)
    assert client.coordinator_of("g") == 1
    assert reports == ["group 'g' has no coordinator: COORDINATOR_NOT_AVAILABLE; trying for 59 s"]
    cluster.on(ApiKey.FIND_COORDINATOR, found(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(ServerError, match="GROUP_AUTHORIZATION_FAILED"):
        client.coordinator_of("h")
    client.close()


def test_an_unknown_broker_is_an_error(cluster: FakeCluster) -> None:
    client, _, _ = client_of(cluster.bootstrap, default_api_timeout_ms=500)
    with pytest.raises(NotReachableError, match=r"the cluster has no broker 7 \(known: 1\)"):
        client.send(ListGroupsRequest(), Node(7))
    client.close()


def test_controllers_are_found_by_describe_cluster(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse())
    client, _, _ = client_of(cluster.bootstrap, is_controller=1)
    client.send(ListGroupsRequest(), CONTROLLER)
    assert cluster.asked(ApiKey.DESCRIBE_CLUSTER)[0].endpoint_type == 2
    assert not cluster.asked(ApiKey.METADATA)
    assert client.cluster().nodes == {1: Address(LOCALHOST, cluster.brokers[1].port)}
    cluster.on(
        ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    )
    other, _, _ = client_of(cluster.bootstrap, is_controller=1)
    with pytest.raises(ServerError, match="MISMATCHED_ENDPOINT_TYPE"):
        other.cluster()
    client.close()
    other.close()
