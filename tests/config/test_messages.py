"""What there is to say that is no error."""

from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.messages import ConfigMessage, MessageKind, key_of_listener, mechanism_of, nearest


def said(line: str) -> list[ConfigMessage]:
    return BrokerConfig.of(line.encode(), file_name="f").messages


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        (
            "log.retension.ms=1",
            MessageKind.UNKNOWN,
            "is not a configuration key; did you mean log.retention.ms?",
        ),
        ("completely.else=1", MessageKind.UNKNOWN, "is not a configuration key"),
        ("retention.ms=1", MessageKind.UNKNOWN, "is a key of topics; the broker's own is log.retention.ms"),
        ("remote.storage.enable=true", MessageKind.UNKNOWN, "is a key of topics, not of the broker"),
        (
            "zookeeper.connect=a:1",
            MessageKind.GONE,
            "is not a key of Kafka 4.3: there is no ZooKeeper; leave it out",
        ),
        ("port=9092", MessageKind.GONE, "is not a key of Kafka 4.3: use listeners=PLAINTEXT://:port"),
        (
            "leader.replication.throttled.rate=1",
            MessageKind.INERT,
            "has no effect: it is only set while the broker runs",
        ),
        ("rsm.config.a=1", MessageKind.INERT, "has no effect: tiered storage comes in a later release"),
        (
            "listener.name.x.sasl.kerberos.kinit.cmd=x",
            MessageKind.INERT,
            "has no effect: libkrb5 gets new tickets by the keys",
        ),
        (
            "listener.name.x.max.connections.per.ip=9",
            MessageKind.INERT,
            "has no effect: it acts for all listeners alike",
        ),
        (
            "sasl.jaas.config=x",
            MessageKind.UNENFORCED,
            "is ignored: it acts as listener.name.<listener>.<mechanism>.sasl.jaas.config",
        ),
        (
            "listener.name.x.sasl.jaas.config=x",
            MessageKind.UNENFORCED,
            "is ignored: it acts as listener.name.<listener>.<mechanism>.sasl.jaas.config",
        ),
        (
            "listener.name.x.plain.sasl.login.class=X",
            MessageKind.INERT,
            "has no effect: it names a Java class",
        ),
        ("listener.name.x.nonsense=9", MessageKind.UNKNOWN, "is not a configuration key"),
        ("num.io.threads=9", MessageKind.INERT, "has no effect: one event loop serves every connection"),
    ],
)
def test_messages_about_settings(line: str, kind: MessageKind, text: str) -> None:
    (message,) = said(line)
    assert message.kind is kind
    assert message.text.startswith(text)
    assert str(message).startswith(f"f line 1: {line.partition('=')[0]} ")
    assert message.is_warning is (kind is not MessageKind.INERT)


def test_a_key_that_acts_has_no_message() -> None:
    assert said("num.partitions=3") == []
    assert said("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer") == []
    assert said("listener.name.x.max.connections=9") == []
    assert said("listener.name.x.plain.sasl.jaas.config=x") == []
    assert said("listener.name.x.oauthbearer.sasl.oauthbearer.expected.issuer=x") == []
    assert said("listener.name.x.oauthbearer.barnabas.oauthbearer.allow.unsecured=true") == []
    assert said("listener.name.x.scram-sha-256.connections.max.reauth.ms=9") == []
    assert said("listener.name.x.connections.max.reauth.ms=9") == []
    assert said("listener.name.x.plain.sasl.server.callback.handler.class=python:a:B") == []


def test_a_key_that_is_set_twice_names_both_lines() -> None:
    (message,) = said("num.partitions=3\n\nnum.partitions=4")
    assert message.kind is MessageKind.REPEATED
    assert (
        str(message)
        == "f line 3: num.partitions is set again; it is also on line 1, and the last one applies"
    )


def test_only_effective_settings_have_messages() -> None:
    config = BrokerConfig.of(b"num.io.threads=1", environ={"KAFKA_NUM_IO_THREADS": "2"})
    assert [message.place for message in config.messages] == ["environment variable KAFKA_NUM_IO_THREADS"]


def test_the_keys_of_listeners() -> None:
    assert key_of_listener("num.partitions") is None
    for name in ("listener.name.a.ssl.client.auth", "listener.name.a.plain.sasl.jaas.config"):
        key = key_of_listener(name)
        assert key is not None
        assert name.endswith(key.name)
    assert key_of_listener("listener.name.a.plain.ssl.client.auth") is None


def test_the_mechanism_of_a_key() -> None:
    assert mechanism_of("listener.name.a.scram-sha-256.sasl.jaas.config") == "scram-sha-256"
    assert mechanism_of("listener.name.a.sasl.jaas.config") == ""
    assert mechanism_of("sasl.jaas.config") == ""


def test_the_nearest_name() -> None:
    assert nearest("num.partition", ["num.partitions", "log.dirs"]) == "num.partitions"
    assert nearest("xyz", ["num.partitions", "log.dirs"]) is None


def test_a_message_without_a_place() -> None:
    message = ConfigMessage(MessageKind.INERT, "a", "is less")
    assert str(message) == "a is less"
    assert repr(message) == "<ConfigMessage no effect: a is less>"
