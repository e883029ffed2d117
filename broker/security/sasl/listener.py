"""SaslListener: the logins of one listener, from its configuration.

A value is looked up as listener.name.<listener>.<mechanism>.<key>, listener.name.<listener>.<key> and <key>, but for
sasl.jaas.config and sasl.server.callback.handler.class, which Kafka takes in the first form alone. What asks for a
protection that does not exist here is an error, never ignored: an unknown mechanism, login module, callback handler or
principal builder.

Source: org.apache.kafka.common.network.SaslChannelBuilder, ChannelBuilders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.security.hooks import FORM, HookError, is_hook, load_hook
from barnabas.broker.security.jaas_entries import JaasFile, jaas_entries, options_of
from barnabas.broker.security.sasl.plain import PLAIN, USER_PREFIX, JaasLogins, PlainMechanism
from barnabas.broker.security.sasl.scram import BY_NAME, ScramCredentials, ScramMechanismOfListener
from barnabas.broker.security.sasl.server import Mechanism
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.replication import INTER_BROKER_LISTENER_NAME, SECURITY_INTER_BROKER_PROTOCOL
from barnabas.config.catalogue.sasl import (
    CONNECTIONS_MAX_REAUTH_MS,
    SASL_ENABLED_MECHANISMS,
    SASL_JAAS_CONFIG,
    SASL_LOGIN_CALLBACK_HANDLER_CLASS,
    SASL_LOGIN_CLASS,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_SERVER_CALLBACK_HANDLER_CLASS,
    SASL_SERVER_MAX_RECEIVE_SIZE,
)
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError
from barnabas.security.oauthbearer import OAUTHBEARER
from barnabas.security.token_settings import (
    LOGIN_HANDLER,
    LOGIN_MODULE,
    UNSECURED_LOGIN_HANDLER,
    UNSECURED_VALIDATOR_HANDLER,
    VALIDATOR_HANDLER,
)

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.oauthbearer_settings import OAuthBearerSurroundings

_PACKAGE: Final = "org.apache.kafka.common.security"
PLAIN_LOGIN_MODULE: Final = f"{_PACKAGE}.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE: Final = f"{_PACKAGE}.scram.ScramLoginModule"
_INTER_BROKER_KEYS: Final = (INTER_BROKER_LISTENER_NAME, SECURITY_INTER_BROKER_PROTOCOL)


class MechanismSettings(NamedTuple):
    """What a mechanism of a listener is made from."""

    name: str
    options: Mapping[str, str]
    """Those of the JAAS entries of its login module."""
    max_reauth_ms: int
    hook: Any
    """The class in sasl.server.callback.handler.class, where it is the operator's own; else None."""
    scram: ScramCredentials


class MechanismKind(NamedTuple):
    """What the configuration of a mechanism may be. `requires_entry`: whether it needs a JAAS entry.

    `make` is None where the reader itself makes the mechanism, of more settings.
    """

    login_module: str
    handler: str
    """Kafka's own callback handler, which stands for what is built in."""
    hook_methods: tuple[str, ...]
    """The methods of an operator's own class; none where there cannot be one."""
    requires_entry: bool
    make: Callable[[MechanismSettings], Mechanism] | None


def _plain(settings: MechanismSettings) -> Mechanism:
    if settings.hook is not None:
        return PlainMechanism(settings.hook(settings.options), settings.max_reauth_ms, blocks=True)
    return PlainMechanism(JaasLogins(settings.options), settings.max_reauth_ms)


def _scram(settings: MechanismSettings) -> Mechanism:
    return ScramMechanismOfListener(settings.name, settings.scram, settings.max_reauth_ms)


_SCRAM_KIND: Final = MechanismKind(
    SCRAM_LOGIN_MODULE,
    f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",
    (),
    requires_entry=False,  # Kafka wants one, which has nothing in it
    make=_scram,
)
MECHANISMS: Final[dict[str, MechanismKind]] = {
    PLAIN: MechanismKind(
        PLAIN_LOGIN_MODULE,
        f"{_PACKAGE}.plain.internals.PlainServerCallbackHandler",
        ("authenticate",),
        requires_entry=True,
        make=_plain,
    ),
    **dict.fromkeys(BY_NAME, _SCRAM_KIND),
    OAUTHBEARER: MechanismKind(
        LOGIN_MODULE,
        UNSECURED_VALIDATOR_HANDLER,
        ("validate",),
        requires_entry=False,
        make=None,
    ),
}
"""The mechanisms that there are, by name."""


class SaslListener(NamedTuple):
    """The logins of one listener; mechanisms by name, the frame limit in bytes."""

    mechanisms: dict[str, Mechanism]
    max_receive_bytes: int


def sasl_listener(
    config: BrokerConfig,
    listener: str,
    scram: ScramCredentials,
    jaas_file: JaasFile | None = None,
    oauthbearer: OAuthBearerSurroundings | None = None,
) -> SaslListener:
    """Raises InvalidConfigError, with every error of the listener's configuration.

    Without `oauthbearer` no listener can have that mechanism.
    """
    reader = _Reader(config, listener, scram, jaas_file, oauthbearer)
    mechanisms = reader.mechanisms()
    max_receive_bytes = reader.value(SASL_SERVER_MAX_RECEIVE_SIZE, None)
    if reader.errors:
        raise InvalidConfigError(reader.errors)
    assert max_receive_bytes is not None
    return SaslListener(mechanisms, max_receive_bytes)


class _Reader:
    """Reads a listener's configuration, and collects its errors."""

    def __init__(
        self,
        config: BrokerConfig,
        listener: str,
        scram: ScramCredentials,
        jaas_file: JaasFile | None,
        oauthbearer: OAuthBearerSurroundings | None,
    ) -> None:
        self.errors: list[ConfigError] = []
        self._config = config
        self._listener = listener
        self._scram = scram
        self._file = jaas_file
        self._oauthbearer_surroundings = oauthbearer

    def mechanisms(self) -> dict[str, Mechanism]:
        enabled = self.value(SASL_ENABLED_MECHANISMS, None) or ()
        found: dict[str, Mechanism] = {}
        if not enabled or any(name not in MECHANISMS for name in enabled):
            self._reject_mechanisms(enabled)
            return found
        if any(self._config.is_set(key) for key in _INTER_BROKER_KEYS):
            self._check_inter_broker_mechanism(enabled)
        for name in enabled:
            mechanism = self._mechanism(name, MECHANISMS[name])
            if mechanism is not None:
                found[name] = mechanism
        return found

    def value(self, key: ConfigKey[Any], mechanism: str | None) -> Any:
        """None for a wrong value, which is among the errors then."""
        try:
            return self._config.listener_value(self._listener, key, mechanism)
        except ConfigError as error:
            self.errors.append(error)
            return None

    def _mechanism(self, name: str, kind: MechanismKind) -> Mechanism | None:
        before = len(self.errors)
        options = self._options(name, kind)
        hook = self._hook(name, kind)
        self._reject_class(name, SASL_LOGIN_CLASS)
        if not (
            name == OAUTHBEARER and self._own_login_handler(name) in (LOGIN_HANDLER, UNSECURED_LOGIN_HANDLER)
        ):
            self._reject_class(name, SASL_LOGIN_CALLBACK_HANDLER_CLASS)
        max_reauth_ms = self.value(CONNECTIONS_MAX_REAUTH_MS, name)
        if len(self.errors) > before:
            return None
        settings = MechanismSettings(name, options, max_reauth_ms, hook, self._scram)
        try:
            return self._oauthbearer(settings) if kind.make is None else kind.make(settings)
        except Exception as error:  # of a hook's constructor: its text may have an option's value in it
            self._reject(
                SASL_SERVER_CALLBACK_HANDLER_CLASS,
                name,
                f"must name a class that can be made: it fails with {type(error).__name__}",
            )
            return None

    def _oauthbearer(self, settings: MechanismSettings) -> Mechanism | None:
        from barnabas.broker.security.sasl.oauthbearer_settings import (
            OAuthBearerConfig,
        )  # only where it is enabled

        assert self._oauthbearer_surroundings is not None
        own = self._config.unknown.get(self._key(OAUTHBEARER, SASL_SERVER_CALLBACK_HANDLER_CLASS))
        handler = None if own is None else own.text.strip()
        reader = OAuthBearerConfig(
            lambda key: self.value(key, OAUTHBEARER),
            lambda key, requirement: self._reject_value(key, OAUTHBEARER, requirement),
            settings.options,
            self._oauthbearer_surroundings,
        )
        return reader.mechanism(handler, settings.hook, settings.max_reauth_ms)

    def _own_login_handler(self, name: str) -> str | None:
        own = self._config.unknown.get(self._key(name, SASL_LOGIN_CALLBACK_HANDLER_CLASS))
        return None if own is None else own.text.strip()

    # ---- JAAS

    def _options(self, name: str, kind: MechanismKind) -> Mapping[str, str]:
        """The options of the mechanism's login module."""
        try:
            given = jaas_entries(self._config, self._listener, name, self._file)
        except ConfigError as error:
            self.errors.append(error)
            return {}
        if given is None:
            if kind.requires_entry:
                self._reject(SASL_JAAS_CONFIG, name, self._wanted_entry(name))
            return {}
        named = [entry.login_module for entry in given.entries]
        if kind.login_module not in named and (given.is_own or kind.requires_entry):
            shown = ", ".join(named) or "none"
            self._reject(SASL_JAAS_CONFIG, name, f"must name {kind.login_module}; it names {shown}")
            return {}
        return options_of(kind.login_module, given.entries)

    def _wanted_entry(self, name: str) -> str:
        module = MECHANISMS[name].login_module
        return (
            f'must be set, as {module} required {USER_PREFIX}alice="a password"; '
            "(or the static JAAS file must have an entry KafkaServer)"
        )

    # ---- classes

    def _hook(self, name: str, kind: MechanismKind) -> Any:
        own = self._config.unknown.get(self._key(name, SASL_SERVER_CALLBACK_HANDLER_CLASS))
        if own is None:
            unprefixed = self._config.listener_setting(self._listener, SASL_SERVER_CALLBACK_HANDLER_CLASS)
            if unprefixed is not None:
                requirement = (
                    f"must have its prefix, as {self._key(name, SASL_SERVER_CALLBACK_HANDLER_CLASS)}"
                )
                self.errors.append(
                    ConfigError(unprefixed.key, unprefixed.text, requirement, unprefixed.place)
                )
            return None
        text = own.text.strip()
        if text == kind.handler or (name == OAUTHBEARER and text == VALIDATOR_HANDLER):
            return None
        if not kind.hook_methods:
            self._reject(SASL_SERVER_CALLBACK_HANDLER_CLASS, name, f"must be {kind.handler}, or left out")
            return None
        if not is_hook(text):
            self._reject(SASL_SERVER_CALLBACK_HANDLER_CLASS, name, self._hint(name, text))
            return None
        try:
            return load_hook(text, *kind.hook_methods)
        except HookError as error:
            self._reject(
                SASL_SERVER_CALLBACK_HANDLER_CLASS, name, f"must name a class that can be loaded: {error}"
            )
            return None

    def _hint(self, name: str, text: str) -> str:
        if name != OAUTHBEARER:
            return f"must be {FORM}, or left out: there is no JVM here that could run a Java class"
        from barnabas.broker.security.sasl.oauthbearer_settings import handler_hint

        return handler_hint(text)

    def _reject_class(self, name: str, key: ConfigKey[Any]) -> None:
        if self._key(name, key) in self._config.unknown:
            self._reject(key, name, "must be left out: there is no JVM here that could run a Java class")

    # ---- errors

    def _key(self, mechanism: str, key: ConfigKey[Any]) -> str:
        return f"listener.name.{self._listener.lower()}.{mechanism.lower()}.{key.name}"

    def _reject(self, key: ConfigKey[Any], mechanism: str, requirement: str) -> None:
        """Adds an error about a key of a mechanism, whose value is not shown where it may be secret."""
        name = self._key(mechanism, key)
        own = self._config.unknown.get(name)
        shown = None if own is None else "[hidden]" if key.sensitive else own.text
        self.errors.append(ConfigError(name, shown, requirement, "" if own is None else own.place))

    def _reject_value(self, key: ConfigKey[Any], mechanism: str, requirement: str) -> None:
        """Adds an error about a key of a mechanism, wherever it is set."""
        setting = self._config.listener_setting(self._listener, key, mechanism)
        if setting is None:
            self._reject(key, mechanism, requirement)
            return
        shown = "[hidden]" if key.sensitive else setting.text
        self.errors.append(ConfigError(setting.key, shown, requirement, setting.place))

    def _reject_mechanisms(self, enabled: tuple[str, ...]) -> None:
        setting = self._config.listener_setting(self._listener, SASL_ENABLED_MECHANISMS)
        lower = self._listener.lower()
        requirement = (
            f"must be among {', '.join(MECHANISMS)} for listener {self._listener}, which asks for SASL. Kerberos, "
            "which is the default, is not served yet. What most want instead are lines like\n"
            f"    sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n"
            f'    listener.name.{lower}.plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_alice="a password";\n'
            f"    listener.name.{lower}.scram-sha-512.sasl.jaas.config={SCRAM_LOGIN_MODULE} required;"
        )
        key = SASL_ENABLED_MECHANISMS.name if setting is None else setting.key
        place = "default" if setting is None else setting.place
        self.errors.append(ConfigError(key, ",".join(enabled), requirement, place))

    def _check_inter_broker_mechanism(self, enabled: tuple[str, ...]) -> None:
        mechanism = self._config[SASL_MECHANISM_INTER_BROKER_PROTOCOL]
        if self._config.inter_broker_listener == self._listener and mechanism not in enabled:
            self.errors.append(
                SASL_MECHANISM_INTER_BROKER_PROTOCOL.error(
                    mechanism,
                    f"among {SASL_ENABLED_MECHANISMS.name} of listener {self._listener}, by which brokers connect",
                ).at(self._config.place(SASL_MECHANISM_INTER_BROKER_PROTOCOL))
            )
