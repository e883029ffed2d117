"""The authorizer of the configuration, or no start."""

from __future__ import annotations

import pytest

from barnabas.broker.security.authorizer import StandardAuthorizer
from barnabas.broker.security.loading import auth_helper_of
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import STANDARD_AUTHORIZER
from barnabas.config.layers import InvalidConfigError
from tests.broker.security.hooks import OnlyHost

HOOKS = "python:tests.broker.security.hooks"


def config(name: str, *more: str) -> BrokerConfig:
    return BrokerConfig.of("\n".join([f"authorizer.class.name={name}", *more]).encode())


def test_kafkas_own() -> None:
    helper = auth_helper_of(config(STANDARD_AUTHORIZER, "super.users=User:root"))
    assert isinstance(helper.authorizer, StandardAuthorizer)
    assert helper.authorizer.super_users == {"User:root"}
    assert helper.acls is helper.authorizer


def test_one_of_the_users_own_is_configured() -> None:
    helper = auth_helper_of(config(f"{HOOKS}:OnlyHost", "super.users=User:10.0.0.1"))
    assert isinstance(helper.authorizer, OnlyHost)
    assert helper.authorizer.host == "10.0.0.1"
    assert helper.acls is None


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((STANDARD_AUTHORIZER, "super.users=root"), "super.users=root must be principals with their type"),
        ((f"{HOOKS}:OnlyHost",), "super.users= must be User:host"),
        ((f"{HOOKS}:NoAuthorizer",), "class NoAuthorizer has no method configure, authorize, authorize_by"),
        ((f"{HOOKS}:NoGeneration",), "an Authorizer; NoGeneration has no generation"),
        ((f"{HOOKS}:Nothing",), "has no class Nothing"),
    ],
)
def test_what_is_not_as_configured_refuses_the_start(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        auth_helper_of(config(*lines))
    assert why in str(caught.value)
