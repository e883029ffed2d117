"""process.roles=broker: what a member of a cluster needs, and what it must not have."""

from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError

MEMBER = {
    "process.roles": "broker",
    "node.id": "2",
    "controller.listener.names": "CONTROLLER,OTHER",
    "controller.quorum.bootstrap.servers": "c:9093",
    "listeners": "PLAINTEXT://:9092",
}


def load(**changes: str | None) -> BrokerConfig:
    settings = {**MEMBER, **{key.replace("__", "."): value for key, value in changes.items()}}
    lines = [f"{key}={value}" for key, value in settings.items() if value is not None]
    return BrokerConfig.of("\n".join(lines).encode(), file_name="f")


def refused(**changes: str | None) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        load(**changes)
    return [str(error) for error in caught.value.errors]


def test_a_member_of_a_cluster() -> None:
    config = load()
    assert config.is_member
    assert config.inter_broker_listener == "PLAINTEXT"
    assert not BrokerConfig().is_member
    voters = {"controller__quorum__bootstrap__servers": None, "controller__quorum__voters": "1@c:9093"}
    assert load(**voters).is_member


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"process__roles": "controller"},
            "process.roles=controller must be broker,controller for a node that",
        ),
        ({"node__id": None}, "node.id= must be set"),
        ({"controller__listener__names": None}, "controller.listener.names= must be set"),
        (
            {"controller__quorum__bootstrap__servers": None},
            "controller.quorum.bootstrap.servers= must be set to the addresses of controllers",
        ),
        (
            {"controller__quorum__voters": "1@a:1,2@b:2"},
            "node.id=2 must be none of those in controller.quorum.voters",
        ),
        (
            {"listeners": "PLAINTEXT://:9092,controller://:9093"},
            "must be without the controllers' listeners, which controller.listener.names names: a broker does not open "
            "controller://:9093",
        ),
        (
            {"advertised__listeners": "PLAINTEXT://h:9092,OTHER://h:1"},
            "a broker does not open OTHER://h:1",
        ),
        (
            {"listener__security__protocol__map": "PLAINTEXT:PLAINTEXT"},
            "must be one with CONTROLLER, the listener by which the controllers are reached",
        ),
        (
            {"broker__heartbeat__interval__ms": "4501"},
            "broker.heartbeat.interval.ms=4501 must be at most half of broker.session.timeout.ms, which is 9000",
        ),
        (
            {"security__inter__broker__protocol": "SSL"},
            "inter.broker.listener.name=SSL must be the name of a listener that is opened: PLAINTEXT",
        ),
        (
            {"inter__broker__listener__name": "INTERNAL"},
            "inter.broker.listener.name=INTERNAL must be the name",
        ),
        (
            {
                "listeners": "CLIENT://:9092",
                "listener__security__protocol__map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            },
            "must be the name of a listener that is opened: CLIENT",
        ),
    ],
)
def test_what_a_member_refuses_names_the_key_and_what_would_be_right(
    changes: dict[str, str | None], complaint: str
) -> None:
    assert any(complaint in error for error in refused(**changes)), refused(**changes)


def test_a_member_may_have_an_authorizer() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert load(authorizer__class__name=authorizer).is_member


def test_one_key_says_which_listener_is_between_brokers() -> None:
    with pytest.raises(InvalidConfigError, match=r"inter.broker.listener.name=PLAINTEXT must be unset where"):
        load(inter__broker__listener__name="PLAINTEXT", security__inter__broker__protocol="PLAINTEXT")


def test_a_named_listener_is_between_brokers() -> None:
    config = load(
        listeners="CLIENT://:9092,INTERNAL://:9094",
        listener__security__protocol__map="CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter__broker__listener__name="internal",
    )
    assert config.inter_broker_listener == "INTERNAL"


def test_half_of_the_session_is_often_enough() -> None:
    assert load(broker__heartbeat__interval__ms="4500").is_member


def test_the_rules_are_for_members_only() -> None:
    assert not BrokerConfig.of(b"broker.heartbeat.interval.ms=8000").is_member


def test_keys_that_act_in_a_cluster_are_not_called_without_effect_there() -> None:
    def inert(config: BrokerConfig) -> set[str]:
        return {message.key for message in config.messages}

    config = load(broker__heartbeat__interval__ms="1000", auto__leader__rebalance__enable="false")
    assert inert(config) == {"auto.leader.rebalance.enable"}
    assert inert(BrokerConfig.of(b"broker.heartbeat.interval.ms=1000")) == {"broker.heartbeat.interval.ms"}
