"""KAFKA_* variables as configuration."""

from __future__ import annotations

from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.environment import cluster_id_from, key_for, settings_from


def read(**variables: str) -> dict[str, str]:
    return {key: value for key, value, _ in settings_from(variables)}


def test_a_variable_names_a_key() -> None:
    assert key_for("KAFKA_LOG_DIRS") == "log.dirs"
    assert key_for("KAFKA_A__B___C") == "a_b-c"


def test_every_key_has_a_variable() -> None:
    for name in (*BROKER_KEYS, "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"):
        variable = "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        assert key_for(variable) == name


def test_only_configuration_is_read() -> None:
    assert read(
        KAFKA_NUM_PARTITIONS="3", NUM_PARTITIONS="4", KAFKA_HEAP_OPTS="-Xmx1G", KAFKA_VERSION="4.3.1"
    ) == {"num.partitions": "3"}


def test_service_variables_of_kubernetes_are_ignored() -> None:
    assert (
        read(
            KAFKA_PORT="tcp://10.0.0.1:9092",
            KAFKA_PORT_9092_TCP_ADDR="10.0.0.1",
            KAFKA_SERVICE_HOST="10.0.0.1",
        )
        == {}
    )
    assert read(KAFKA_PORT="9092") == {"port": "9092"}


def test_the_variable_is_named_with_its_setting() -> None:
    assert list(settings_from({"KAFKA_B": "2", "KAFKA_A": "1"})) == [
        ("a", "1", "KAFKA_A"),
        ("b", "2", "KAFKA_B"),
    ]


def test_the_cluster_id_is_read_as_in_kafkas_image() -> None:
    assert cluster_id_from({"CLUSTER_ID": "x"}) == "x"
    assert cluster_id_from({"CLUSTER_ID": ""}) is None
    assert cluster_id_from({}) is None
