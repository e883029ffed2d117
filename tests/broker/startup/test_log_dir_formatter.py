"""Formatted directories; the conformance tests compare the rejections with Kafka's."""

from __future__ import annotations

import hmac
from base64 import b64encode

import pytest

from barnabas.broker.metadata.bootstrap import (
    bootstrap_records,
    default_levels,
    first_records,
    read_bootstrap,
)
from barnabas.broker.metadata.snapshot_files import read_snapshot
from barnabas.broker.startup.log_dir_formatter import FormatPlan, Formatter, parse_voters
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.broker.startup.scram_arguments import FormatterError, parse_scram
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.messages.topic_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from barnabas.protocol.wire import uuid_from_string
from barnabas.storage.log.checkpoints import MetaProperties
from tests.storage.fault_env import FaultEnv, PowerCut, power_cut

CLUSTER_ID, VOTER_ID = "MkU3OEVBNTcwNTJENDM2Qg", "JEXY6aqzQY-32P5TStzaFg"
PLAN = FormatPlan(CLUSTER_ID, 7, ["/b", "/a"], "/b")
SETTINGS = ["node.id=7", "log.dirs=/b,/a", "barnabas.log.dir.min.free.bytes=0"]


def formatted(plan: FormatPlan, env: FaultEnv) -> list[str]:
    lines: list[str] = []
    Formatter(plan, env, lines.append).run()
    return lines


def started(env: FaultEnv, *settings: str) -> NodeStorage:
    return NodeStorage(BrokerConfig.of(None, overrides=[*SETTINGS, *settings]), env)


def test_each_directory_gets_its_id_and_the_first_records() -> None:
    env = FaultEnv()
    lines = formatted(PLAN, env)
    assert lines[1:] == [
        "Formatting data directory /a with metadata.version 4.3-IV0.",
        "Formatting metadata directory /b with metadata.version 4.3-IV0.",
    ]
    found = [MetaProperties.read(env, path) for path in PLAN.log_dirs]
    assert all(one is not None and (one.cluster_id, one.node_id) == (CLUSTER_ID, 7) for one in found)
    assert len({one.directory_id for one in found if one is not None}) == 2
    for path in PLAN.log_dirs:
        assert read_bootstrap(env, path) == bootstrap_records(default_levels(30))


def test_a_node_starts_on_the_formatted_directories() -> None:
    env = FaultEnv()
    plan = PLAN._replace(release_version="3.9", scram=["SCRAM-SHA-256=[name=alice,password=secret]"])
    formatted(plan, env)
    node = started(env)
    assert (node.cluster_id, node.node_id) == (CLUSTER_ID, 7)
    assert dict(node.image.features) == {"metadata.version": 21}
    assert [user for user, _ in node.image.scram] == ["alice"]
    assert not node.image.brokers[7].fenced
    node.close()


def test_a_voter_has_the_directory_id_in_the_log() -> None:
    env = FaultEnv()
    plan = PLAN._replace(initial_voters=parse_voters(f"7@h:9093:{VOTER_ID}"))
    assert "dynamic metadata voter directory /b" in formatted(plan, env)[-1]
    properties = MetaProperties.read(env, "/b")
    assert properties is not None
    assert properties.directory_id == VOTER_ID
    control = read_snapshot(env, "/b/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint").control
    assert control.kraft_version == 1
    node = started(env, "controller.quorum.bootstrap.servers=h:9093")
    assert node.quorum.kraft_version == 1
    assert node.quorum.log.directory_id == uuid_from_string(VOTER_ID)
    node.close()


def test_a_format_interrupted_by_a_power_cut_can_be_repeated() -> None:
    plan = PLAN._replace(initial_voters=parse_voters(f"7@h:9093:{VOTER_ID}"), ignore_formatted=True)
    operations = 0

    def counting(number: int, _kind: str, _path: str) -> None:
        nonlocal operations
        operations = number + 1

    env = FaultEnv()
    env.inject(counting)
    formatted(plan, env)
    for operation in range(operations):
        env = FaultEnv()
        env.inject(power_cut(operation))
        with pytest.raises(PowerCut):
            formatted(plan, env)
        env.inject(None)
        env.crash()
        formatted(plan, env)
        node = started(env, "controller.quorum.bootstrap.servers=h:9093")
        assert node.cluster_id == CLUSTER_ID
        assert node.quorum.log.directory_id == uuid_from_string(VOTER_ID)
        node.close()


def test_an_ipv6_host_is_in_brackets() -> None:
    (voter,) = parse_voters(f"7@[::1]:9093:{VOTER_ID}")
    assert (voter.host, voter.port) == ("::1", 9093)
    with pytest.raises(FormatterError, match="no right bracket"):
        parse_voters(f"7@[::1:9093:{VOTER_ID}")


def test_a_password_gives_the_keys_of_the_example_in_rfc_7677() -> None:
    salt, nonce = "W22ZaJ0SNY7soEsUEjb6gQ==", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    record = parse_scram(f"SCRAM-SHA-256=[name=user,password=pencil,salt={salt}]", nothing)
    said = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={salt},i=4096,c=biws,r={nonce}"
    signature = hmac.digest(record.server_key, said.encode(), "sha256")
    assert b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert parse_scram(f'SCRAM-SHA-256=[name=user,password="pencil",salt="{salt}"]', nothing) == record


def test_a_missing_salt_is_drawn() -> None:
    record = parse_scram("SCRAM-SHA-512=[name=u,password=p,iterations=5000]", lambda size: b"r" * size)
    assert (record.name, record.mechanism, record.iterations) == ("u", 2, 5000)
    assert len(record.salt) >= 16
    assert set(record.salt) == set(b"r")


def nothing(size: int) -> bytes:
    raise AssertionError("nothing is to be drawn")


def test_the_first_records_are_one_transaction_if_supported() -> None:
    begin, *middle, end = first_records(bootstrap_records(default_levels(30)), 2)
    assert isinstance(begin, BeginTransactionRecord)
    assert isinstance(end, EndTransactionRecord)
    assert isinstance(middle[0], FeatureLevelRecord)
    assert middle[0].name == "metadata.version"
    assert isinstance(middle[-1], ConfigRecord)
    assert (middle[-1].name, middle[-1].value) == ("min.insync.replicas", "2")
    assert first_records(bootstrap_records(default_levels(12)), 2) == [
        FeatureLevelRecord(name="metadata.version", feature_level=12)
    ]
