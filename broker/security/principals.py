"""Who a client is once it has authenticated (KIP-371): Kafka's own rules, or a class of the operator's own.

`principal.builder.class=python:module:Class`, for all listeners or with the prefix of one, names a class that makes a
principal of what is known about a connection: a type and a name, as ACLs have them. As a complete example, the module
`company_principals` in a directory of PYTHONPATH

    from barnabas.broker.security.principals import serialized_principal

    class Teams:
        def build(self, context):                     # an AuthenticationContext
            if context.peer_name is not None:         # the client has shown a certificate, of CN=..., OU=<team>
                fields = dict(part.split("=", 1) for part in context.peer_name.split(","))
                return "Team", fields["OU"].lower()
            if context.authorization_id is not None:  # it has logged in
                return "User", context.authorization_id.partition("@")[0]
            return "User", "ANONYMOUS"

        serialize = staticmethod(serialized_principal)  # for members of a cluster

and in server.properties

    principal.builder.class=python:company_principals:Teams

There is one object for each listener, made without arguments; a method `configure` is called with the settings of
server.properties as texts, but for passwords. `build` is called once for each login, on the event loop, so that it must
not wait for anything; an exception lets the client not in. ssl.principal.mapping.rules and
sasl.kerberos.principal.to.local.rules are Kafka's own builder's, and not followed beside another.

A member of a cluster passes requests on to controllers in the name of the client, as bytes that `serialize` makes of a
principal and that the controller's own principal builder has to understand: those of Kafka's, as above, hold type and
name. A member whose class has no `serialize` does not start.

Source: org.apache.kafka.common.security.auth.KafkaPrincipalBuilder, KafkaPrincipalSerde, AuthenticationContext;
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal
from barnabas.broker.security.hooks import FORM, HookError, load_hook
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.catalogue.tls import PRINCIPAL_BUILDER_CLASS
from barnabas.config.keys import ConfigError
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.security import DefaultPrincipalData

_PRINCIPAL_VERSION: Final = 0


class PrincipalError(ValueError):
    """The builder has made no principal; the client is not let in."""


class AuthenticationContext(NamedTuple):
    """What is known about a connection that has authenticated. None for what its protocol does not have."""

    security_protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    listener_name: str
    client_address: str
    peer_name: str | None = None
    """The name in the client's certificate, as Java writes it: CN=alice,OU=x; None without one."""
    peer_certificate: bytes | None = None
    """The client's certificate, in DER."""
    tls_version: str | None = None
    """TLSv1.3."""
    cipher_suite: str | None = None
    """Its name at IANA."""
    sasl_mechanism: str | None = None
    authorization_id: str | None = None
    """Who has logged in; for GSSAPI the whole principal, alice@REALM."""
    token_authenticated: bool = False
    """The login was by a delegation token."""
    session_expires_ms: int | None = None
    """When the client's credential ends, in ms since 1970; None: no end."""


class PrincipalBuilder(Protocol):
    """The methods of a class of one's own; `configure(settings)` and `serialize(principal)` are optional."""

    def build(self, context: AuthenticationContext) -> KafkaPrincipal | tuple[str, str]:
        """The principal, or its type and name."""


class TlsPeer(NamedTuple):
    """What a handshake of TLS has shown."""

    certificate: bytes | None
    version: str
    cipher_suite: str


class Naming:
    """Names the client of one connection by a builder of the operator's own."""

    __slots__ = ("_builder", "_info", "tls")

    def __init__(self, builder: PrincipalBuilder, info: ConnectionInfo) -> None:
        self._builder = builder
        self._info = info
        self.tls: TlsPeer | None = None
        """Set when a handshake is complete."""

    def principal(
        self,
        mechanism: str | None = None,
        authorization_id: str | None = None,
        *,
        token_authenticated: bool = False,
        expires_ms: int | None = None,
    ) -> KafkaPrincipal:
        """The principal of the connection; arguments are those of a login. Raises PrincipalError."""
        info, tls = self._info, self.tls
        certificate = None if tls is None else tls.certificate
        context = AuthenticationContext(
            security_protocol=info.security_protocol,
            listener_name=info.listener_name,
            client_address=info.client_host,
            peer_name=None if certificate is None else _name_in(certificate),
            peer_certificate=certificate,
            tls_version=None if tls is None else tls.version,
            cipher_suite=None if tls is None else tls.cipher_suite,
            sasl_mechanism=mechanism,
            authorization_id=authorization_id,
            token_authenticated=token_authenticated,
            session_expires_ms=expires_ms,
        )
        try:
            built = self._builder.build(context)
        except Exception as error:  # a class of the operator's own may raise anything
            raise PrincipalError(
                f"{PRINCIPAL_BUILDER_CLASS.name} has failed with {type(error).__name__}: {error}"
            ) from error
        principal_type, name = _parts(built)
        principal = KafkaPrincipal(name, principal_type, token_authenticated=token_authenticated)
        if hasattr(self._builder, "serialize"):
            self.serialized(principal)  # a client whose requests could not be passed on is not let in
        return principal

    def serialized(self, principal: KafkaPrincipal) -> bytes:
        """A principal as it stands in an Envelope. Raises PrincipalError."""
        serialize = getattr(self._builder, "serialize", serialized_principal)
        try:
            data = serialize(principal)
        except Exception as error:
            raise PrincipalError(f"serialize has failed with {type(error).__name__}: {error}") from error
        if not isinstance(data, bytes):
            raise PrincipalError(f"serialize returns {type(data).__name__}, not bytes")
        return data


def _name_in(certificate: bytes) -> str:
    from barnabas.security.certificates import subject_name

    return subject_name(certificate)


def _parts(built: object) -> tuple[str, str]:
    if isinstance(built, KafkaPrincipal):
        return built.principal_type, built.name
    match built:
        case (str(principal_type), str(name)) if principal_type and name:
            return principal_type, name
    raise PrincipalError(
        f"{PRINCIPAL_BUILDER_CLASS.name} returns {type(built).__name__}, not a type and a name"
    )


def serialized_principal(principal: KafkaPrincipal) -> bytes:
    """A principal as Kafka's own builder writes it for an Envelope, and reads it there."""
    data = DefaultPrincipalData(
        type=principal.principal_type, name=principal.name, token_authenticated=principal.token_authenticated
    )
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + encode(data, _PRINCIPAL_VERSION)


# ---- from the configuration


def has_builder(config: BrokerConfig, listener: str) -> bool:
    """Whether a class of the operator's own names the clients of a listener."""
    return _named(config, listener) not in ("", PRINCIPAL_BUILDER_CLASS.default)


def principal_builder(config: BrokerConfig, listener: str) -> PrincipalBuilder | None:
    """The builder of a listener, configured; None for Kafka's own. Raises ConfigError for any that cannot be."""
    if not has_builder(config, listener):
        return None
    named = _named(config, listener)
    try:
        found = load_hook(named, "build")
    except HookError as error:
        raise _error(
            config,
            listener,
            f"must be {PRINCIPAL_BUILDER_CLASS.default}, or {FORM} for a class that can be loaded; {error}",
        ) from error
    if config.is_member and not callable(getattr(found, "serialize", None)):
        raise _error(
            config,
            listener,
            "must name a class with the method serialize(principal) in a member of a cluster, which passes requests "
            "on to controllers in the name of clients",
        )
    try:
        builder: PrincipalBuilder = found()
        configure = getattr(builder, "configure", None)
        if configure is not None:
            configure(_texts(config))
    except Exception as error:  # a class of the operator's own may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise _error(
            config, listener, f"must name a class that can be made without arguments; {reason}"
        ) from error
    return builder


def _named(config: BrokerConfig, listener: str) -> str:
    setting = config.listener_setting(listener, PRINCIPAL_BUILDER_CLASS)
    return "" if setting is None else setting.text.strip()


def _texts(config: BrokerConfig) -> Mapping[str, str]:
    return {each.key: each.text for each in config.settings() if not BROKER_KEYS[each.key].sensitive}


def _error(config: BrokerConfig, listener: str, requirement: str) -> ConfigError:
    setting: Any = config.listener_setting(listener, PRINCIPAL_BUILDER_CLASS)
    return ConfigError(setting.key, setting.text, requirement, setting.place)
