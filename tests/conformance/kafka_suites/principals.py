"""Stands in for the principal builders of Kafka's tests, by which a client's name is that of its listener."""

from __future__ import annotations

from typing import Final

from barnabas.broker.security.principals import AuthenticationContext, serialized_principal

USERS: Final = {"BROKER": "broker", "CONTROLLER": "broker", "CLIENT": "client", "EXTERNAL": "client"}


class ByListener:
    """The listener of a client names it; who has logged in has its own name."""

    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        """The principal."""
        if context.authorization_id is not None:
            return "User", context.authorization_id
        return self.kind, USERS[context.listener_name]

    kind = "User"

    serialize = staticmethod(serialized_principal)


class Groups(ByListener):
    """The same, where each is a group: ACLs are those of `Group:client`."""

    kind = "Group"


class Unauthorized:
    """Each client is a user who may do nothing."""

    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        """The principal."""
        return "User", context.authorization_id or "Unauthorized"

    serialize = staticmethod(serialized_principal)
