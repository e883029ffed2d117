"""quorum-state, byte for byte as Apache Kafka 4.3 writes it."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.quorum_state import NO_NODE, QuorumState, QuorumStateFile
from barnabas.protocol.wire import uuid_from_string
from tests.broker.metadata.raft_logs import LOG_DIR, new_env

STATIC = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
    '"data_version":0}'
)
DYNAMIC = (
    '{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (STATIC, QuorumState(leader_epoch=1, leader_id=1, voters=(1,))),
        (DYNAMIC, QuorumState(leader_epoch=3, leader_id=1)),
        (
            DYNAMIC.replace('"leaderId":1', '"leaderId":-1')
            .replace('"votedId":-1', '"votedId":1')
            .replace("A" * 22, "ZVtQaufvTEGj2l_AkXFt-Q"),
            QuorumState(3, NO_NODE, 1, uuid_from_string("ZVtQaufvTEGj2l_AkXFt-Q")),
        ),
    ],
)
def test_the_bytes_that_kafka_writes(text: str, state: QuorumState) -> None:
    assert QuorumState.from_json(text) == state
    assert state.to_json() == text


def test_a_file_replaces_its_predecessor() -> None:
    env = new_env()
    file = QuorumStateFile(env, LOG_DIR)
    assert file.read() is None
    for epoch in (1, 2):
        file.write(QuorumState(leader_epoch=epoch, leader_id=1))
        env.crash()
        assert file.read() == QuorumState(leader_epoch=epoch, leader_id=1)


def test_a_state_without_voters() -> None:
    text = STATIC.replace('[{"voterId":1}]', "null")
    assert QuorumState.from_json(text).voters == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "no json",
        STATIC.replace('"data_version":0', '"data_version":2'),
        DYNAMIC.replace('"leaderId":1,', ""),
        DYNAMIC.replace('"leaderEpoch":3', '"leaderEpoch":null'),
        DYNAMIC.replace("A" * 22, "no id"),
    ],
)
def test_an_unreadable_file_is_ignored(text: str) -> None:
    env = new_env()
    env.write_file(f"{LOG_DIR}/quorum-state", text.encode())
    with pytest.raises(ValueError):
        QuorumState.from_json(text)
    assert QuorumStateFile(env, LOG_DIR).read() is None
