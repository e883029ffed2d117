"""What a node knows of the quorum of its metadata: the one that it is alone, and the one that it observes."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.quorum import InitialVoter, MetadataQuorum, ObservedQuorum, voters_record
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import DEFAULT_SETTINGS
from barnabas.broker.metadata.snapshot_files import Control
from barnabas.broker.pending import Pending, completed
from barnabas.config.listeners import Listener
from barnabas.protocol.messages.control_records import VotersRecord
from tests.broker.held_runner import HeldRunner
from tests.broker.metadata.raft_logs import DIRECTORY_ID, LOG_DIR, NODE_ID, Node, new_env
from tests.broker.metadata.test_observer_raft_log import committed, install, snapshot

LISTENER = Listener("CONTROLLER", "c1.test", 9093, security_protocol="PLAINTEXT")


def quorum_of(*listeners: Listener) -> MetadataQuorum:
    return MetadataQuorum(Node(new_env()).log, listeners, lambda: 1)


def result_of(answer: Pending[str]) -> list[str]:
    """The answer, once it is there."""
    results: list[str] = []
    answer.add_done_callback(results.append)
    return results


def failed(error: BaseException) -> str:
    return f"failed: {error}"


# -- alone --


@pytest.mark.parametrize(("host", "named"), [("c1.test", "c1.test"), (None, "localhost")])
def test_an_upgrade_names_the_node_as_the_only_voter(host: str | None, named: str) -> None:
    quorum = quorum_of(LISTENER._replace(host=host))
    assert (quorum.kraft_version, quorum.can_name_voters) == (0, True)
    quorum.upgrade(1)
    assert quorum.kraft_version == 1
    voters = quorum.log.raft.control.voters
    assert voters == voters_record([InitialVoter(NODE_ID, DIRECTORY_ID, named, 9093)], "CONTROLLER")


def test_without_a_listener_of_the_controller_no_voter_can_be_named() -> None:
    assert not quorum_of().can_name_voters


def test_an_answer_waits_for_the_upgrade_that_it_announces() -> None:
    quorum = quorum_of(LISTENER)
    runner = quorum.runner = HeldRunner()
    results = result_of(quorum.upgrading(completed("yes"), 1, lambda answer: answer == "yes", failed))
    assert (results, quorum.kraft_version) == ([], 0)
    runner.release()
    assert (results, quorum.kraft_version) == (["yes"], 1)


def test_an_answer_without_an_upgrade_waits_for_nothing() -> None:
    quorum = quorum_of(LISTENER)
    quorum.runner = HeldRunner()
    results = result_of(quorum.upgrading(completed("no"), 1, lambda answer: answer == "yes", failed))
    assert (results, quorum.kraft_version) == (["no"], 0)


def test_an_upgrade_that_cannot_be_recorded_is_the_answer() -> None:
    quorum = quorum_of(LISTENER)
    runner = quorum.runner = HeldRunner()
    results = result_of(quorum.upgrading(completed("yes"), 1, lambda _: True, failed))
    runner.fail(OSError("the disk"))
    assert (results, quorum.kraft_version) == (["failed: the disk"], 0)


def test_voters_are_recorded_in_the_order_of_their_ids() -> None:
    voters = [InitialVoter(2, b"b" * 16, "c2.test", 2), InitialVoter(1, b"a" * 16, "c1.test", 1)]
    record = voters_record(voters, "CONTROLLER")
    assert [voter.voter_id for voter in record.voters] == [1, 2]
    first = record.voters[0]
    assert [(at.name, at.host, at.port) for at in first.endpoints] == [("CONTROLLER", "c1.test", 1)]
    assert (first.kraft_version_feature.min_supported_version, first.voter_directory_id) == (0, b"a" * 16)


# -- observed --


def test_the_level_of_an_observed_quorum_is_the_one_that_was_read_last() -> None:
    env = new_env()
    log = ObserverRaftLog(RaftLog(env, LOG_DIR, DEFAULT_SETTINGS), env, 7, DIRECTORY_ID)
    quorum = ObservedQuorum(log.raft)
    assert quorum.kraft_version == 0
    voters = VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=3000)])
    install(log, *snapshot([], 10, 4, Control(1, voters)))
    committed(log)
    assert quorum.kraft_version == 1
