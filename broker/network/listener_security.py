"""ListenerSecurity: how the connections of one listener are secured, from when it opens until it closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.request import ANONYMOUS, KafkaPrincipal
from barnabas.config.listeners import Listener

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.listener import SaslListener

PLAINTEXT: Final = "PLAINTEXT"
SASL_PREFIX: Final = "SASL_"


class ListenerSecurity:
    """The security protocol of a listener, and the logins that it asks for.

    `sasl` is there exactly where the protocol has SASL in it: a listener never serves a client without a login because
    its logins were forgotten.
    """

    __slots__ = ("sasl", "security_protocol")

    def __init__(self, security_protocol: str, sasl: SaslListener | None = None) -> None:
        assert security_protocol.startswith(SASL_PREFIX) is (sasl is not None), security_protocol
        self.security_protocol = security_protocol
        self.sasl = sasl

    @property
    def initial_principal(self) -> KafkaPrincipal | None:
        """Whose requests those of a new connection are; None: nobody's until it has authenticated."""
        return ANONYMOUS if self.security_protocol == PLAINTEXT else None


def without_security(listener: Listener) -> ListenerSecurity:
    """That of a broker whose listeners are all PLAINTEXT."""
    assert listener.security_protocol == PLAINTEXT, listener
    return ListenerSecurity(PLAINTEXT)
