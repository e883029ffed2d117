"""Authorizers of a user's own, for tests of authorizer.class.name=python:tests.broker.security.hooks:..."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.broker.security.authorizer import Action, AuthorizableRequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import SUPER_USERS


class AllowEveryone:
    """Allows everything and follows no ACLs."""

    generation: int | None = 1

    def configure(self, config: BrokerConfig) -> None:
        """There is nothing to configure."""

    def authorize(self, context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[bool]:
        return [True] * len(actions)

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: int, resource_type: int
    ) -> bool:
        return True


class OnlyHost(AllowEveryone):
    """Allows what one host asks for, which is the name of the only super user; its decisions are not to be kept."""

    generation = None

    def configure(self, config: BrokerConfig) -> None:
        if not config[SUPER_USERS]:
            raise SUPER_USERS.error("", "User:host")
        self.host = config[SUPER_USERS].partition(":")[2]
        self.asked: list[Action] = []

    def authorize(self, context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[bool]:
        self.asked += actions
        return [context.host == self.host] * len(actions)

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: int, resource_type: int
    ) -> bool:
        return context.host == self.host


class NoAuthorizer:
    """Has no decisions."""


class NoGeneration:
    """Does not say until when its decisions may be kept."""

    configure = AllowEveryone.configure
    authorize = AllowEveryone.authorize
    authorize_by_resource_type = AllowEveryone.authorize_by_resource_type
