"""bootstrap.checkpoint: the first records of a cluster."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.bootstrap import (
    FILE_NAME,
    bootstrap_records,
    default_levels,
    first_records,
    read_bootstrap,
    write_bootstrap,
)
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.messages.topic_records import FeatureLevelRecord
from tests.storage.fault_env import FaultEnv

ALICE = UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v")


def names(levels: dict[str, int]) -> list[tuple[str, int]]:
    return [
        (record.name, record.feature_level)
        for record in bootstrap_records(levels)
        if isinstance(record, FeatureLevelRecord)
    ]


def new_env() -> FaultEnv:
    env = FaultEnv()
    env.mkdir("/d")
    return env


def test_metadata_version_comes_first_and_disabled_features_are_left_out() -> None:
    assert names(default_levels(30)) == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    assert names(default_levels(21)) == [("metadata.version", 21)]
    assert names({"metadata.version": 30, "kraft.version": 1}) == [("metadata.version", 30)]


def test_written_records_are_read_again() -> None:
    env = new_env()
    records = bootstrap_records(default_levels(27), [ALICE])
    write_bootstrap(env, "/d", records)
    assert read_bootstrap(env, "/d") == records
    assert records[-1] == ALICE


def test_without_a_file_the_newest_release_is_used() -> None:
    assert read_bootstrap(new_env(), "/d") == bootstrap_records(default_levels(30))


def test_an_incomplete_file_is_rejected() -> None:
    env = new_env()
    write_bootstrap(env, "/d", bootstrap_records(default_levels(30)))
    whole = env.read_file(f"/d/{FILE_NAME}")
    env.write_file(f"/d/{FILE_NAME}", whole[:-10])
    with pytest.raises(MetadataLogError, match=r"bootstrap\.checkpoint is no whole snapshot"):
        read_bootstrap(env, "/d")


def test_before_metadata_transactions_the_records_have_no_transaction() -> None:
    records = bootstrap_records(default_levels(12))
    assert first_records(records, 1) == records
    assert len(first_records(bootstrap_records(default_levels(13)), 1)) == 3
