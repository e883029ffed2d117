"""The effective configuration: layers, messages, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_PROFILE, BARNABAS_QUEUED_MAX_REQUEST_BYTES
from barnabas.config.catalogue.log import LOG_RETENTION_MS, NUM_PARTITIONS
from barnabas.config.catalogue.network import LISTENERS
from barnabas.config.catalogue.sasl import CONNECTIONS_MAX_REAUTH_MS, SASL_ENABLED_MECHANISMS
from barnabas.config.catalogue.server import BROKER_ID, NODE_ID
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError, Source
from barnabas.config.listeners import Listener


def refused(data: bytes) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        BrokerConfig.of(data, file_name="f")
    return str(caught.value).splitlines()


def test_without_settings_values_are_kafkas_defaults() -> None:
    config = BrokerConfig()
    assert config[NUM_PARTITIONS] == 1
    assert config[LOG_RETENTION_MS] is None
    assert (config.source(NUM_PARTITIONS), config.place(NUM_PARTITIONS)) == (Source.DEFAULT, "default")
    assert config.setting(NUM_PARTITIONS) is None
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.listeners == [Listener("PLAINTEXT", None, 9092)]
    assert config.messages == []


def test_each_layer_overrides_the_one_below() -> None:
    def partitions(**layers: object) -> tuple[int, Source, str]:
        config = BrokerConfig.of(
            b"num.partitions=2" if "file" in layers else None,
            file_name="f",
            environ={"KAFKA_NUM_PARTITIONS": "3"} if "environment" in layers else {},
            overrides=["num.partitions=4"] if "override" in layers else [],
        )
        return config[NUM_PARTITIONS], config.source(NUM_PARTITIONS), config.place(NUM_PARTITIONS)

    assert partitions() == (1, Source.DEFAULT, "default")
    assert partitions(file=1) == (2, Source.FILE, "f line 1")
    assert partitions(file=1, environment=1) == (
        3,
        Source.ENVIRONMENT,
        "environment variable KAFKA_NUM_PARTITIONS",
    )
    assert partitions(file=1, environment=1, override=1) == (4, Source.OVERRIDE, "--override")


def test_a_profile_overrides_only_the_defaults() -> None:
    config = BrokerConfig.load(overrides=["listeners=PLAINTEXT://:0"])
    assert config.profile == config[BARNABAS_PROFILE] == "dev"
    assert config.log_dirs == ("barnabas-data",)
    assert config.place(LISTENERS) == "--override"
    assert [setting.key for setting in config.settings()][:3] == [
        "barnabas.profile",
        "group.consumer.assignment.interval.ms",
        "group.initial.rebalance.delay.ms",
    ]


def test_the_profile_is_that_of_the_strongest_layer() -> None:
    assert BrokerConfig.of(b"").profile == "kafka"
    assert BrokerConfig.of(b"barnabas.profile=dev").profile == "dev"
    config = BrokerConfig.of(b"barnabas.profile=dev", environ={"KAFKA_BARNABAS_PROFILE": "durable"})
    assert config.profile == config[BARNABAS_PROFILE] == "durable"
    assert refused(b"barnabas.profile=fast") == [
        "f line 1: barnabas.profile=fast must be one of dev, kafka, durable"
    ]


def test_either_name_of_the_log_directories_wins_over_the_profile() -> None:
    assert BrokerConfig.load(environ={"KAFKA_LOG_DIR": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig.load(environ={"KAFKA_LOG_DIRS": "/a,/b"}).log_dirs == ("/a", "/b")


def test_a_file_is_read_from_its_place(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=7\n")
    config = BrokerConfig.load(str(file))
    assert config.value_of("num.partitions") == 7
    assert config.place(NUM_PARTITIONS) == f"{file} line 1"
    with pytest.raises(FileNotFoundError):
        BrokerConfig.load(str(tmp_path / "none"))


def test_all_errors_are_reported_at_once_without_consequences_of_others() -> None:
    assert refused(b"num.partitions=0\nnode.id=-1\nlisteners=GONE://:1\nlog.roll.ms=0\nbroker.id=5") == [
        "f line 1: num.partitions=0 must be a whole number from 1 to 2147483647",
        "f line 2: node.id=-1 must be a whole number from 0 to 2147483647",
        "f line 3: listeners=GONE://:1 must be made of listeners in listener.security.protocol.map; GONE is not in it",
        "f line 4: log.roll.ms=0 must be at least 1",
    ]


def test_listeners_that_cannot_be_read_are_one_error() -> None:
    assert len(refused(b"listeners=")) == 1


def test_the_inter_broker_listener_must_exist() -> None:
    assert "inter.broker.listener.name=X must be the name" in refused(b"inter.broker.listener.name=X")[0]


def test_messages_are_found_along_the_way() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        BrokerConfig.of(b"num.partitions=0\nx.y=1")
    assert len(caught.value.messages) == 1
    config = BrokerConfig.of(b"x.y=1\nnum.io.threads=3")
    assert [message.key for message in config.messages] == ["x.y", "num.io.threads"]
    assert [message.key for message in config.warnings] == ["x.y"]
    assert list(config.unknown) == ["x.y"]


def test_overridden_values_are_not_checked() -> None:
    assert BrokerConfig.of(b"num.partitions=x", overrides=["num.partitions=3"])[NUM_PARTITIONS] == 3


def test_the_memory_of_requests_always_has_a_bound() -> None:
    assert BrokerConfig().max_request_bytes_in_flight == BARNABAS_QUEUED_MAX_REQUEST_BYTES.default
    assert BrokerConfig.of(b"queued.max.request.bytes=200000000").max_request_bytes_in_flight == 200_000_000


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_either_name_of_the_node_id_sets_both(name: str) -> None:
    config = BrokerConfig.of(f"{name}=7".encode(), file_name="f")
    assert config.node_id == config[NODE_ID] == config[BROKER_ID] == 7
    assert config.place(NODE_ID) == config.place(BROKER_ID) == "f line 1"


def test_the_node_id_is_settled_by_configuration_then_storage_then_one() -> None:
    assert BrokerConfig().node_id is None
    assert BrokerConfig().settle_node_id(None, "/data") == 1
    config = BrokerConfig()
    assert config.settle_node_id(4, "/data") == 4
    assert config.node_id == config[BROKER_ID] == 4
    assert config.place(NODE_ID) == "/data/meta.properties"
    assert BrokerConfig.of(b"node.id=4").settle_node_id(4, "/data") == 4
    assert BrokerConfig.of(b"node.id=4").settle_node_id(None, "/data") == 4


def test_another_node_id_than_the_stored_one_is_an_error_with_the_remedy() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        BrokerConfig.of(b"node.id=4", file_name="f").settle_node_id(5, "/data")
    assert str(caught.value) == "f line 1: node.id=4 must be 5, or unset: /data was formatted with node.id=5"


def test_the_cluster_id_comes_from_the_environment() -> None:
    assert BrokerConfig.load(environ={"CLUSTER_ID": "abc"}).cluster_id == "abc"
    assert BrokerConfig.load().cluster_id is None


def test_a_stock_kraft_file_starts_a_broker() -> None:
    config = BrokerConfig.of(
        b"process.roles=broker,controller\n"
        b"node.id=1\n"
        b"controller.quorum.bootstrap.servers=localhost:9093\n"
        b"listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        b"inter.broker.listener.name=PLAINTEXT\n"
        b"advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        b"controller.listener.names=CONTROLLER\n"
        b"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        b"log.dirs=/tmp/kraft-combined-logs\n"
    )
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT"]
    assert config.warnings == []


def test_values_of_a_listener_and_of_its_mechanisms() -> None:
    config = BrokerConfig.of(
        b"connections.max.reauth.ms=1\n"
        b"listener.name.one.connections.max.reauth.ms=2\n"
        b"listener.name.one.plain.connections.max.reauth.ms=3\n"
        b"listener.name.two.plain.sasl.login.class=X\n",
        file_name="f",
    )
    key = CONNECTIONS_MAX_REAUTH_MS
    assert config.listener_value("ONE", key, "PLAIN") == 3
    assert config.listener_value("ONE", key, "SCRAM-SHA-256") == config.listener_value("ONE", key) == 2
    assert config.listener_value("TWO", key, "PLAIN") == 1
    found = config.listener_setting("ONE", key, "PLAIN")
    assert found is not None
    assert (found.key, found.place) == ("listener.name.one.plain.connections.max.reauth.ms", "f line 3")
    assert config.listener_setting("TWO", SASL_ENABLED_MECHANISMS) is None
    assert config.listener_value("TWO", SASL_ENABLED_MECHANISMS) == ("GSSAPI",)


def test_a_wrong_value_of_a_mechanism_names_its_setting() -> None:
    config = BrokerConfig.of(b"listener.name.one.plain.connections.max.reauth.ms=3", file_name="f")
    name = "listener.name.one.plain.connections.max.reauth.ms"
    config.unknown[name] = config.unknown[name]._replace(text="soon")
    with pytest.raises(ConfigError, match=f"f line 1: {name}=soon must be a whole number"):
        config.listener_value("ONE", CONNECTIONS_MAX_REAUTH_MS, "PLAIN")
