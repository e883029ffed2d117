"""MetadataObserver: which node is asked what, and what each response leads to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.metadata.observer import MetadataObserver, ObserverEvents, Quorum
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.quorum_state import QuorumState
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.metadata.raft_log import METADATA_TOPIC_ID
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable, UnsupportedVersion
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.groups import HeartbeatResponse
from barnabas.protocol.messages.quorum import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.schema import Message
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.metadata.raft_logs import DIRECTORY_ID, config, new_env
from tests.broker.metadata.test_observer_raft_log import NODE_ID, opened, setting, snapshot

ONE, TWO = NodeAddress("c1.test", 9093), NodeAddress("c2.test", 9093)
BOOTSTRAP = NodeAddress("bootstrap.test", 9093)
ENDPOINTS = {3001: ONE, 3002: TWO}
LEADER_ONE = QuorumView(5, 3001)


class Follower:
    """An observer; the test is the network, the disk and the clock."""

    def __init__(self, log: ObserverRaftLog | None = None, **quorum: Any) -> None:
        self.timer = ManualTimer()
        self.runner = HeldRunner()
        self.log = log or opened(new_env())
        self.calls: list[str] = []
        self.sent: list[tuple[NodeAddress, Message, Pending[Message | NodeClientError]]] = []
        self.timeouts: set[int | None] = set()

        def note(what: str) -> Callable[..., None]:
            return lambda *reasons: self.calls.append(" ".join([what, *reasons]))

        usual: dict[str, Any] = {"cluster_id": "us", "bootstrap": [BOOTSTRAP]}
        self.observer = MetadataObserver(
            self.log,
            Quorum(**(usual | quorum)),
            channel_to=self.channel_to,
            timer=self.timer,
            runner=self.runner,
            events=ObserverEvents(
                note("progressed"), note("replaced"), note("leader changed"), note("failed")
            ),
            choose=lambda nodes: nodes[0],
        )
        self.observer.start()
        self.timer.advance(0)

    def channel_to(self, node: NodeAddress) -> Channel:
        return Channel(self, node)

    def leader(self) -> NodeAddress | None:
        return self.observer.leader

    @property
    def asked(self) -> NodeAddress:
        """The node of the request under way."""
        return self.sent[-1][0]

    def request(self) -> FetchRequest.FetchPartition:
        """The Fetch under way."""
        assert not self.sent[-1][2].done
        request = self.sent[-1][1]
        assert isinstance(request, FetchRequest)
        return request.topics[0].partitions[0]

    def snapshot_request(self) -> FetchSnapshotRequest.PartitionSnapshot:
        request = self.sent[-1][1]
        assert isinstance(request, FetchSnapshotRequest)
        return request.topics[0].partitions[0]

    def respond(self, result: Message | NodeClientError) -> None:
        """Completes the request under way, and what follows at once."""
        self.sent[-1][2].complete(result)
        self.timer.advance(0)

    def answer(self, named: QuorumView = LEADER_ONE, error: int = 0, **fields: Any) -> None:
        self.respond(fetched(named, error, **fields))

    def release(self) -> None:
        self.runner.release()
        self.timer.advance(0)

    def taken_calls(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


class Channel:
    """A NodeChannel of a Follower."""

    def __init__(self, follower: Follower, node: NodeAddress) -> None:
        self._follower, self._node = follower, node

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        sent = self._follower.sent
        assert all(pending.done for _, _, pending in sent), "two requests are under way"
        self._follower.timeouts.add(timeout_ms)
        sent.append((self._node, request, Pending()))
        return sent[-1][2]

    def close(self) -> None: ...


def fetched(named: QuorumView, error: int = 0, **fields: Any) -> FetchResponse:
    """The response of a controller that names this leader and epoch."""
    usual: dict[str, Any] = {"high_watermark": -1, "records": b""}
    leader = FetchResponse.LeaderIdAndEpoch(leader_id=named.leader_id, leader_epoch=named.epoch)
    data = FetchResponse.PartitionData(error_code=error, current_leader=leader, **(usual | fields))
    return FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[data])],
        node_endpoints=[
            FetchResponse.NodeEndpoint(node_id=node_id, host=at.host, port=at.port)
            for node_id, at in ENDPOINTS.items()
        ],
    )


def following(log: ObserverRaftLog | None = None, view: QuorumView = LEADER_ONE) -> Follower:
    """A follower of controller 3001 in epoch 5."""
    follower = Follower(log)
    follower.answer(view, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.release()
    assert follower.asked == ENDPOINTS[view.leader_id]
    assert follower.taken_calls() == ["leader changed"]
    return follower


# -- finding the leader --


def test_it_first_asks_a_bootstrap_server() -> None:
    follower = Follower()
    assert follower.asked == BOOTSTRAP
    request = follower.sent[-1][1]
    assert isinstance(request, FetchRequest)
    assert (request.cluster_id, request.max_wait_ms, request.min_bytes) == ("us", 500, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (NODE_ID, -1)
    assert request.session_epoch == -1, "metadata are fetched without sessions"
    assert request.topics[0].topic_id == METADATA_TOPIC_ID
    partition = follower.request()
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch) == (0, 0, 0)
    assert (partition.high_watermark, partition.replica_directory_id) == (-1, DIRECTORY_ID)
    assert follower.timeouts == {2000}


def test_a_leader_is_followed_once_the_state_is_durable() -> None:
    follower = Follower()
    follower.answer(LEADER_ONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(follower.sent) == 1
    assert follower.leader() is None
    follower.release()
    assert follower.taken_calls() == ["leader changed"]
    assert follower.leader() == ONE
    assert follower.observer.view == LEADER_ONE
    assert follower.asked == ONE
    assert follower.request().current_leader_epoch == 5
    assert follower.log.raft.state == QuorumState(leader_epoch=5, leader_id=3001, voters=())


def test_static_voters_are_asked_too_and_have_addresses_of_their_own() -> None:
    follower = Follower(bootstrap=[], voters={3001: ONE, 3002: TWO})
    assert follower.asked == ONE
    response = fetched(QuorumView(5, 3002), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response.node_endpoints = []  # a controller of an older version
    follower.respond(response)
    follower.release()
    assert follower.asked == TWO
    assert follower.log.raft.state.voters == (3001, 3002)


def test_without_a_leader_the_bootstrap_servers_are_asked_again() -> None:
    follower = Follower()
    follower.answer(QuorumView(6), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.release()
    assert (follower.observer.view, follower.observer.leader) == (QuorumView(6), None)
    assert follower.asked == BOOTSTRAP
    assert follower.request().current_leader_epoch == 6
    follower.answer(QuorumView(6), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(follower.sent) == 2, "not at once"
    follower.timer.advance(0.021)
    assert len(follower.sent) == 3


def test_the_epoch_of_an_earlier_life_is_the_first_to_ask_with() -> None:
    env = new_env()
    log = opened(env)
    log.raft.write_state(QuorumState(leader_epoch=8, leader_id=3001))
    follower = Follower(opened(env))
    assert follower.request().current_leader_epoch == 8
    follower.answer(QuorumView(7, 3002), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert follower.runner.held == 0, "an older epoch is ignored"


def test_a_node_that_cannot_be_reached_is_left_alone_for_a_moment() -> None:
    follower = Follower(bootstrap=[BOOTSTRAP, TWO])
    follower.respond(NodeUnavailable("refused"))
    assert follower.asked == TWO
    follower.respond(UnsupportedVersion("no Fetch"))
    assert len(follower.sent) == 2
    follower.timer.advance(0.021)
    assert follower.asked == BOOTSTRAP


def test_a_silent_leader_is_asked_for_at_the_bootstrap_servers() -> None:
    follower = following()
    follower.timer.advance(1.9)
    follower.respond(NodeUnavailable("lost"))
    assert follower.asked == BOOTSTRAP, "the leader is left alone"
    follower.answer(LEADER_ONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.timer.advance(0.03)
    assert follower.asked == ONE, "it leads still, and is asked again"
    follower.timer.advance(0.2)
    follower.respond(NodeUnavailable("lost"))
    follower.timer.advance(0.03)
    assert follower.asked == BOOTSTRAP, "nothing came from it for two seconds"
    follower.answer(QuorumView(6, 3002), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.release()
    assert follower.asked == TWO


def test_a_leader_at_another_address_is_followed_there() -> None:
    follower = following()
    response = fetched(LEADER_ONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response.node_endpoints[0].host = "moved.test"
    follower.respond(response)
    assert follower.runner.held == 0, "the state is the same"
    assert follower.asked == NodeAddress("moved.test", 9093)


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_a_rejection_is_fatal(code: ErrorCode) -> None:
    follower = Follower()
    follower.respond(FetchResponse(error_code=code))
    (call,) = follower.calls
    assert call.startswith(
        f"failed the controller at bootstrap.test:9093 rejects this broker with {code.name}"
    )
    follower.timer.advance(100)
    assert len(follower.sent) == 1


def test_any_other_error_of_the_whole_response_is_tried_again() -> None:
    follower = following()
    follower.respond(FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    follower.timer.advance(0.03)
    assert not follower.calls
    assert len(follower.sent) == 3


def test_two_leaders_of_an_epoch_are_fatal() -> None:
    follower = following()
    follower.answer(QuorumView(5, 3002))
    assert follower.calls == ["failed two controllers lead the metadata quorum in epoch 5: 3001 and 3002"]


def test_a_failing_disk_is_fatal() -> None:
    follower = Follower()
    follower.answer(LEADER_ONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.runner.fail(OSError("the disk is gone"))
    assert follower.calls == ["failed the disk is gone"]
    assert follower.observer.view == QuorumView()


@pytest.mark.parametrize("response", [FetchResponse(), HeartbeatResponse()], ids=["empty", "another"])
def test_a_response_of_another_kind_is_asked_for_again(response: Message) -> None:
    follower = following()
    follower.respond(response)
    follower.timer.advance(0.03)
    assert len(follower.sent) == 3
    assert not follower.calls


# -- the log --


def test_records_are_appended_and_committed_as_the_leader_says() -> None:
    follower = following()
    follower.answer(records=setting(0, 5) + setting(1, 5), high_watermark=1)
    assert follower.taken_calls() == ["progressed"]
    assert (follower.log.end_offset, follower.log.raft.high_watermark) == (2, 1)
    request = follower.request()
    assert (request.fetch_offset, request.last_fetched_epoch, request.high_watermark) == (2, 5, 1)
    follower.answer(high_watermark=9)
    assert follower.log.raft.high_watermark == 2
    assert follower.observer.leader_high_watermark == 9


def test_a_leader_that_does_not_know_the_high_watermark_yet_changes_nothing_of_it() -> None:
    follower = following()
    follower.answer(records=setting(0, 5), high_watermark=1)
    follower.answer(high_watermark=-1)
    assert (follower.log.raft.high_watermark, follower.observer.leader_high_watermark) == (1, 1)


def test_the_rate_of_the_records_is_over_the_last_half_minute() -> None:
    follower = following()
    assert follower.observer.fetch_rate.per_second == 0
    for second in range(60):
        follower.timer.advance(1)
        follower.answer(records=setting(2 * second, 5) + setting(2 * second + 1, 5))
        follower.answer()
    assert follower.observer.fetch_rate.per_second == pytest.approx(2)
    for _ in range(60):
        follower.timer.advance(1)
        follower.answer()
    assert follower.observer.fetch_rate.per_second == 0


def test_damaged_records_are_fetched_again() -> None:
    follower = following()
    damaged = bytearray(setting(0, 5))
    damaged[-1] ^= 1
    follower.answer(records=bytes(damaged), high_watermark=1)
    assert follower.log.end_offset == 0
    assert not follower.calls
    follower.timer.advance(0.03)
    assert follower.asked == ONE
    assert follower.request().fetch_offset == 0


def test_records_of_a_node_that_has_just_become_known_as_the_leader_are_fetched_again() -> None:
    follower = Follower()
    follower.answer(LEADER_ONE, records=setting(0, 5), high_watermark=1)
    follower.release()
    assert follower.log.end_offset == 0
    assert follower.asked == ONE


def test_a_diverging_log_is_truncated_away_from_the_loop() -> None:
    follower = following()
    follower.answer(records=setting(0, 4) + setting(1, 4), high_watermark=1)
    follower.taken_calls()
    follower.answer(diverging_epoch=FetchResponse.EpochEndOffset(epoch=4, end_offset=1))
    count = len(follower.sent)
    assert (follower.log.end_offset, follower.runner.held) == (2, 1)
    follower.release()
    assert follower.log.end_offset == 1
    assert len(follower.sent) == count + 1
    assert follower.request().fetch_offset == 1


def test_a_divergence_below_the_high_watermark_is_fatal() -> None:
    follower = following()
    follower.answer(records=setting(0, 5) + setting(1, 5), high_watermark=2)
    follower.taken_calls()
    follower.answer(diverging_epoch=FetchResponse.EpochEndOffset(epoch=5, end_offset=1))
    with pytest.raises(Exception, match="committed up to 2"):  # a HeldRunner passes on what is no OSError
        follower.release()
    assert follower.log.end_offset == 2


# -- snapshots --


SNAPSHOT_ID, SNAPSHOT = snapshot([config("a", "1")], 10, 4)
NAMED = FetchResponse.SnapshotId(end_offset=10, epoch=4)


def piece(at: int, **fields: Any) -> FetchSnapshotResponse:
    """The response to a FetchSnapshot, with 100 bytes from `at` on."""
    right: dict[str, Any] = {
        "snapshot_id": FetchSnapshotResponse.SnapshotId(end_offset=10, epoch=4),
        "current_leader": FetchSnapshotResponse.LeaderIdAndEpoch(leader_id=3001, leader_epoch=5),
        "size": len(SNAPSHOT),
        "position": at,
        "unaligned_records": SNAPSHOT[at : at + 100],
    }
    data = FetchSnapshotResponse.PartitionSnapshot(**(right | fields))
    return FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot(partitions=[data])])


def test_a_snapshot_is_fetched_in_pieces_and_takes_the_place_of_the_log() -> None:
    follower = following()
    follower.answer(snapshot_id=NAMED)
    at = 0
    while at < len(SNAPSHOT):
        request = follower.snapshot_request()
        assert (request.position, request.current_leader_epoch) == (at, 5)
        assert (request.snapshot_id.end_offset, request.snapshot_id.epoch) == (10, 4)
        follower.respond(piece(at))
        at += 100
    assert (follower.log.end_offset, follower.calls) == (0, [])
    follower.release()
    assert follower.calls == ["replaced"]
    assert follower.log.raft.snapshots.ids == [SNAPSHOT_ID]
    fetch = follower.request()
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (10, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        piece(0, error_code=ErrorCode.SNAPSHOT_NOT_FOUND),
        piece(0, error_code=ErrorCode.POSITION_OUT_OF_RANGE),
        piece(50),
        piece(0, snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=20, epoch=4)),
        FetchSnapshotResponse(),
    ],
    ids=["gone", "out of range", "another piece", "another snapshot", "nothing"],
)
def test_a_piece_that_does_not_fit_is_asked_for_again_or_the_log_is(wrong: FetchSnapshotResponse) -> None:
    follower = following()
    follower.answer(snapshot_id=NAMED)
    follower.respond(wrong)
    follower.timer.advance(0.03)
    assert not follower.calls
    assert follower.asked == ONE
    assert not follower.sent[-1][2].done
    assert follower.log.end_offset == 0


def test_a_new_leader_ends_the_download() -> None:
    follower = following()
    follower.answer(snapshot_id=NAMED)
    follower.respond(piece(0))
    response = piece(100, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    response.topics[0].partitions[0].current_leader.leader_epoch = 6
    response.topics[0].partitions[0].current_leader.leader_id = 3002
    response.node_endpoints = [FetchSnapshotResponse.NodeEndpoint(node_id=3002, host=TWO.host, port=TWO.port)]
    follower.respond(response)
    follower.release()
    assert follower.asked == TWO
    assert follower.request().fetch_offset == 0


# -- the end --


def test_a_stopped_observer_applies_nothing_more() -> None:
    follower = following()
    follower.observer.stop()
    follower.answer(records=setting(0, 5), high_watermark=1)
    follower.timer.advance(100)
    assert follower.log.end_offset == 0
    assert len(follower.sent) == 2
    assert not follower.calls
