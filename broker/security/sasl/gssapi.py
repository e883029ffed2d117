"""GSSAPI (RFC 4752): Kerberos. The client shows a ticket for this broker's principal, and its keytab proves it.

    client: AP-REQ                     broker: AP-REP, or nothing where the client does not want one
    client: nothing                    broker: the protections that it offers: none
    client: none, and a name           broker: nothing; the client is logged in

Without an AP-REP the broker's offer comes in its place. The user is what sasl.kerberos.principal.to.local.rules make of
the principal of the ticket. The name in the client's last message is not followed, as in Kafka: clients send their own
principal, that of the broker (kafka-python, aiokafka), or nothing.

An authenticator that was used before is rejected, by libkrb5's replay cache. That, and a ticket that is not valid yet,
are no failed logins: the connection is closed, and the client tries again.

Source: com.sun.security.sasl.gsskerb.GssKrb5Server, org.apache.kafka.common.security.kerberos.KerberosError,
SaslServerCallbackHandler, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from barnabas.broker.security.sasl.server import Login, SaslError, SaslRetriableError
from barnabas.security.gss_layer import OFFER, GssLayerError, authorization_id_of
from barnabas.security.kerberos import KerberosError
from barnabas.security.kerberos_options import GSSAPI
from barnabas.security.mapping_rules import NoRuleMatchesError


class Context(Protocol):
    """The security context of a server: kerberos.AcceptorContext, whose errors are KerberosErrors."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def principal(self) -> str: ...

    def step(self, token: bytes, /) -> bytes: ...
    def wrap(self, message: bytes, /) -> bytes: ...
    def unwrap(self, token: bytes, /) -> bytes: ...


class _State(Enum):
    CONTEXT = "the tokens of Kerberos come"
    OFFER = "the client's empty message comes, and the offer of protections answers it"
    CHOICE = "the client's choice comes"


class GssapiServer:
    """One login by GSSAPI."""

    blocks: Final = True
    """Keytab, replay cache and the arithmetic of Kerberos are not for the event loop."""

    def __init__(self, context: Context, name_of: Callable[[str], str]) -> None:
        """`name_of` makes the user's name of a principal; it raises NoRuleMatchesError."""
        self._context = context
        self._name_of = name_of
        self._state = _State.CONTEXT
        self.user: str | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        try:
            match self._state:
                case _State.CONTEXT:
                    return self._step(token)
                case _State.OFFER:
                    if token:
                        raise SaslError("the client's message is not empty, and the context is complete")
                    return self._offer()
                case _State.CHOICE:
                    return self._finish(token)
        except KerberosError as error:
            raise (SaslRetriableError if error.is_retriable else SaslError)(f"Kerberos: {error}") from None
        except (GssLayerError, NoRuleMatchesError) as error:
            raise SaslError(str(error)) from None

    def _step(self, token: bytes) -> bytes:
        answer = self._context.step(token)
        if not self._context.is_complete:
            return answer
        self.user = self._context.principal
        self._state = _State.OFFER
        return answer or self._offer()

    def _offer(self) -> bytes:
        self._state = _State.CHOICE
        return self._context.wrap(OFFER)

    def _finish(self, token: bytes) -> bytes:
        assert self.user is not None
        authorization_id_of(self._context.unwrap(token))
        self.login = Login(self._name_of(self.user))
        return b""


class GssapiMechanism:
    """GSSAPI of one listener."""

    name: Final = GSSAPI

    def __init__(
        self, new_context: Callable[[], Context], name_of: Callable[[str], str], max_reauth_ms: int = 0
    ) -> None:
        self._new_context = new_context
        self._name_of = name_of
        self.max_reauth_ms = max_reauth_ms

    def new_server(self) -> GssapiServer:
        return GssapiServer(self._new_context(), self._name_of)
