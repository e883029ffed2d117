"""The authorizer of the configuration, or no start."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.authorizer import Action, AuthorizableRequestContext, StandardAuthorizer
from barnabas.broker.security.loading import auth_helper_of
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import STANDARD_AUTHORIZER
from barnabas.config.layers import InvalidConfigError
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from tests.broker.security.hooks import OnlyHost
from tests.support.examples import importable, indented_after

DOCS = Path(__file__).parents[3] / "docs"

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


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    code = indented_after((DOCS / "authorization.md").read_text(), "The one below lets everyone read")
    with importable(code, "acme_access", tmp_path):
        helper = auth_helper_of(config("python:acme_access:OfficeHours", "super.users=User:root"))
        actions = [
            Action(operation, AclResourceType.TOPIC, "t")
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        for name, allowed in (("root", [True, True]), ("alice", [True, False])):
            context = AuthorizableRequestContext(KafkaPrincipal(name), "192.0.2.7", "Fetch")
            assert helper.authorizer.authorize(context, actions) == allowed
            by_type = helper.authorizer.authorize_by_resource_type(
                context, AclOperation.WRITE, AclResourceType.TOPIC
            )
            assert by_type is allowed[1]
