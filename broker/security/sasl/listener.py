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
from barnabas.broker.security.principals import has_builder
from barnabas.broker.security.sasl.plain import PLAIN, USER_PREFIX, JaasLogins, PlainMechanism
from barnabas.broker.security.sasl.scram import BY_NAME, ScramCredentials, ScramMechanismOfListener
from barnabas.broker.security.sasl.server import Mechanism
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.replication import INTER_BROKER_LISTENER_NAME, SECURITY_INTER_BROKER_PROTOCOL
from barnabas.config.catalogue.sasl import (
    CONNECTIONS_MAX_REAUTH_MS,
    SASL_ENABLED_MECHANISMS,
    SASL_JAAS_CONFIG,
    SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES,
    SASL_KERBEROS_SERVICE_NAME,
    SASL_LOGIN_CALLBACK_HANDLER_CLASS,
    SASL_LOGIN_CLASS,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_SERVER_CALLBACK_HANDLER_CLASS,
    SASL_SERVER_MAX_RECEIVE_SIZE,
)
from barnabas.config.dynamic import SettingsWaitError
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError
from barnabas.security.kerberos_options import GSSAPI, LOGIN_MODULE, SERVER_EXAMPLE
from barnabas.security.oauthbearer import OAUTHBEARER
from barnabas.security.token_settings import (
    LOGIN_HANDLER,
    UNSECURED_LOGIN_HANDLER,
    UNSECURED_VALIDATOR_HANDLER,
    VALIDATOR_HANDLER,
)
from barnabas.security.token_settings import LOGIN_MODULE as OAUTHBEARER_LOGIN_MODULE

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.gssapi import GssapiMechanism
    from barnabas.broker.security.sasl.oauthbearer import OAuthBearerMechanism
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
    handler: str | None
    """What is in sasl.server.callback.handler.class."""
    scram: ScramCredentials
    config: BrokerConfig
    listener: str
    oauthbearer: OAuthBearerSurroundings | None


class MechanismKind(NamedTuple):
    """What the configuration of a mechanism may be. `requires_entry`: whether it needs a JAAS entry.

    `make` raises ConfigError or InvalidConfigError for what it cannot be made of.
    """

    login_module: str
    handlers: tuple[str, ...]
    """Kafka's own callback handlers, which stand for what is built in; the first is the default."""
    hook_methods: tuple[str, ...]
    """The methods of an operator's own class; none where there cannot be one."""
    requires_entry: bool
    make: Callable[[MechanismSettings], Mechanism]
    example: str = ""
    """The options of an entry, for the error where there is none."""
    login_handlers: tuple[str, ...] = ()
    """Kafka's own classes by which this broker may log in at others; for listeners they mean nothing."""
    hint: Callable[[str], str] = lambda _: (
        f"must be {FORM}, or left out: there is no JVM here that could run a Java class"
    )
    """What to say of a callback handler that is not known here."""
    lacks: Callable[[], str | None] = lambda: None
    """What is not installed that the mechanism needs; None where all of it is there."""


def _plain(settings: MechanismSettings) -> Mechanism:
    if settings.hook is not None:
        return PlainMechanism(settings.hook(settings.options), settings.max_reauth_ms, blocks=True)
    return PlainMechanism(JaasLogins(settings.options), settings.max_reauth_ms)


def _scram(settings: MechanismSettings) -> Mechanism:
    return ScramMechanismOfListener(settings.name, settings.scram, settings.max_reauth_ms)


def _gssapi(settings: MechanismSettings) -> GssapiMechanism:
    from barnabas.broker.security.sasl.gssapi import GssapiMechanism
    from barnabas.security.errors import SettingError
    from barnabas.security.kerberos import Acceptor, KerberosError, default_realm
    from barnabas.security.kerberos_options import KerberosOptionsError, server_options
    from barnabas.security.kerberos_rules import KerberosShortNamer

    config, listener = settings.config, settings.listener
    jaas = f"listener.name.{listener.lower()}.{GSSAPI.lower()}.{SASL_JAAS_CONFIG.name}"
    try:
        service_name = config.listener_value(listener, SASL_KERBEROS_SERVICE_NAME)
        acceptor = Acceptor(server_options(settings.options, service_name))
        rules = config.listener_value(listener, SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES)
        namer = KerberosShortNamer(rules, default_realm())
    except KerberosOptionsError as error:
        raise ConfigError(jaas, "[hidden]", f"must {error}") from None
    except KerberosError as error:
        reason = f"must have a principal whose keys are in its keytab: {error}"
        raise ConfigError(jaas, "[hidden]", reason) from None
    except SettingError as error:
        found = config.listener_setting(listener, SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES)
        place = "" if found is None else found.place
        raise ConfigError(
            error.key if found is None else found.key, error.value, error.requirement, place
        ) from None
    # A builder of the operator's own makes a principal of the whole name; these rules are the default builder's.
    name_of = str if has_builder(config, listener) else namer.name_of
    return GssapiMechanism(acceptor.context, name_of, settings.max_reauth_ms)


def _lacks_kerberos() -> str | None:
    from barnabas.security.kerberos import KerberosMissingError, library

    try:
        library()
    except KerberosMissingError as error:
        return str(error)
    return None


def _oauthbearer(settings: MechanismSettings) -> OAuthBearerMechanism:
    from barnabas.broker.security.sasl.oauthbearer_settings import OAuthBearerConfig

    config, listener = settings.config, settings.listener
    errors: list[ConfigError] = []

    def value(key: ConfigKey[Any]) -> Any:
        return _value(config, listener, key, OAUTHBEARER, errors)

    def reject(key: ConfigKey[Any], requirement: str) -> None:
        errors.append(_effective_error(config, listener, OAUTHBEARER, key, requirement))

    assert settings.oauthbearer is not None
    reader = OAuthBearerConfig(value, reject, settings.options, settings.oauthbearer)
    mechanism = reader.mechanism(settings.handler, settings.hook, settings.max_reauth_ms)
    if errors or mechanism is None:
        raise InvalidConfigError(errors)
    return mechanism


def _oauthbearer_hint(handler: str) -> str:
    from barnabas.broker.security.sasl.oauthbearer_settings import handler_hint

    return handler_hint(handler)


def instead(listener: str) -> str:
    """What most want in place of Kerberos, which is the default: lines to copy."""
    prefix = f"listener.name.{listener.lower()}"
    return (
        "Where Kerberos, which is the default, is not wanted, set lines like\n"
        f"    {SASL_ENABLED_MECHANISMS.name}=PLAIN,SCRAM-SHA-512\n"
        f'    {prefix}.plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_alice="a password";\n'
        f"    {prefix}.scram-sha-512.sasl.jaas.config={SCRAM_LOGIN_MODULE} required;"
    )


def _mechanisms_error(
    config: BrokerConfig, listener: str, named: tuple[str, ...], requirement: str
) -> ConfigError:
    """An error about the mechanisms of a listener."""
    setting = config.listener_setting(listener, SASL_ENABLED_MECHANISMS)
    key = SASL_ENABLED_MECHANISMS.name if setting is None else setting.key
    place = "default" if setting is None else setting.place
    return ConfigError(key, ",".join(named), requirement, place)


def _value(
    config: BrokerConfig,
    listener: str,
    key: ConfigKey[Any],
    mechanism: str | None,
    errors: list[ConfigError],
) -> Any:
    """What counts for a mechanism; None for a wrong value, which is among the errors then."""
    try:
        return config.listener_value(listener, key, mechanism)
    except ConfigError as error:
        errors.append(error)
        return None


def _own_key(listener: str, mechanism: str, key: ConfigKey[Any]) -> str:
    """A key of one mechanism of one listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{key.name}"


def _own_error(
    config: BrokerConfig, listener: str, mechanism: str, key: ConfigKey[Any], requirement: str
) -> ConfigError:
    """An error about a key of a mechanism, whose value is not shown where it may be secret."""
    name = _own_key(listener, mechanism, key)
    own = config.unknown.get(name)
    shown = None if own is None else "[hidden]" if key.sensitive else own.text
    return ConfigError(name, shown, requirement, "" if own is None else own.place)


def _effective_error(
    config: BrokerConfig, listener: str, mechanism: str, key: ConfigKey[Any], requirement: str
) -> ConfigError:
    """The same, but about the setting that counts for the mechanism, wherever it is."""
    setting = config.listener_setting(listener, key, mechanism)
    if setting is None:
        return _own_error(config, listener, mechanism, key, requirement)
    return ConfigError(setting.key, "[hidden]" if key.sensitive else setting.text, requirement, setting.place)


_SCRAM_KIND: Final = MechanismKind(
    SCRAM_LOGIN_MODULE,
    (f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",),
    (),
    requires_entry=False,  # Kafka wants one, which has nothing in it
    make=_scram,
)
MECHANISMS: Final[dict[str, MechanismKind]] = {
    PLAIN: MechanismKind(
        PLAIN_LOGIN_MODULE,
        (f"{_PACKAGE}.plain.internals.PlainServerCallbackHandler",),
        ("authenticate",),
        requires_entry=True,
        make=_plain,
        example=f'{USER_PREFIX}alice="a password"',
    ),
    **dict.fromkeys(BY_NAME, _SCRAM_KIND),
    GSSAPI: MechanismKind(
        LOGIN_MODULE,
        (f"{_PACKAGE}.authenticator.SaslServerCallbackHandler",),
        (),
        requires_entry=True,
        make=_gssapi,
        example=SERVER_EXAMPLE,
        lacks=_lacks_kerberos,
    ),
    OAUTHBEARER: MechanismKind(
        OAUTHBEARER_LOGIN_MODULE,
        (UNSECURED_VALIDATOR_HANDLER, VALIDATOR_HANDLER),
        ("validate",),
        requires_entry=False,
        make=_oauthbearer,
        login_handlers=(LOGIN_HANDLER, UNSECURED_LOGIN_HANDLER),
        hint=_oauthbearer_hint,
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
        self._oauthbearer = oauthbearer

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
        return _value(self._config, self._listener, key, mechanism, self.errors)

    def _mechanism(self, name: str, kind: MechanismKind) -> Mechanism | None:
        before = len(self.errors)
        lacks = kind.lacks()
        if lacks is not None:
            requirement = f"{lacks}. {instead(self._listener)}"
            self.errors.append(_mechanisms_error(self._config, self._listener, (name,), requirement))
            return None
        options = self._options(name, kind)
        hook = self._hook(name, kind)
        self._reject_class(name, SASL_LOGIN_CLASS)
        if self._own_text(name, SASL_LOGIN_CALLBACK_HANDLER_CLASS) not in kind.login_handlers:
            self._reject_class(name, SASL_LOGIN_CALLBACK_HANDLER_CLASS)
        max_reauth_ms = self.value(CONNECTIONS_MAX_REAUTH_MS, name)
        if len(self.errors) > before:
            return None
        settings = MechanismSettings(
            name,
            options,
            max_reauth_ms,
            hook,
            self._own_text(name, SASL_SERVER_CALLBACK_HANDLER_CLASS),
            self._scram,
            self._config,
            self._listener,
            self._oauthbearer,
        )
        try:
            return kind.make(settings)
        except ConfigError as error:
            self.errors.append(error)
            return None
        except InvalidConfigError as error:
            self.errors += error.errors
            return None
        except SettingsWaitError:
            raise
        except Exception as error:  # of a hook's constructor: its text may have an option's value in it
            self._reject(
                SASL_SERVER_CALLBACK_HANDLER_CLASS,
                name,
                f"must name a class that can be made: it fails with {type(error).__name__}",
            )
            return None

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
        kind = MECHANISMS[name]
        wanted = (
            f"must be set, as {kind.login_module} required {kind.example}; "
            "(or the static JAAS file must have an entry KafkaServer)"
        )
        return f"{wanted}. {instead(self._listener)}" if name == GSSAPI else wanted

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
        if text in kind.handlers:
            return None
        if not kind.hook_methods:
            self._reject(SASL_SERVER_CALLBACK_HANDLER_CLASS, name, f"must be {kind.handlers[0]}, or left out")
            return None
        if not is_hook(text):
            self._reject(SASL_SERVER_CALLBACK_HANDLER_CLASS, name, kind.hint(text))
            return None
        try:
            return load_hook(text, *kind.hook_methods)
        except HookError as error:
            self._reject(
                SASL_SERVER_CALLBACK_HANDLER_CLASS, name, f"must name a class that can be loaded: {error}"
            )
            return None

    def _reject_class(self, name: str, key: ConfigKey[Any]) -> None:
        if self._key(name, key) in self._config.unknown:
            self._reject(key, name, "must be left out: there is no JVM here that could run a Java class")

    # ---- errors

    def _key(self, mechanism: str, key: ConfigKey[Any]) -> str:
        return _own_key(self._listener, mechanism, key)

    def _own_text(self, mechanism: str, key: ConfigKey[Any]) -> str | None:
        own = self._config.unknown.get(self._key(mechanism, key))
        return None if own is None else own.text.strip()

    def _reject(self, key: ConfigKey[Any], mechanism: str, requirement: str) -> None:
        self.errors.append(_own_error(self._config, self._listener, mechanism, key, requirement))

    def _reject_mechanisms(self, enabled: tuple[str, ...]) -> None:
        requirement = (
            f"must be among {', '.join(MECHANISMS)} for listener {self._listener}, which asks for SASL. "
            f"{instead(self._listener)}"
        )
        self.errors.append(_mechanisms_error(self._config, self._listener, enabled, requirement))

    def _check_inter_broker_mechanism(self, enabled: tuple[str, ...]) -> None:
        mechanism = self._config[SASL_MECHANISM_INTER_BROKER_PROTOCOL]
        if self._config.inter_broker_listener == self._listener and mechanism not in enabled:
            self.errors.append(
                SASL_MECHANISM_INTER_BROKER_PROTOCOL.error(
                    mechanism,
                    f"among {SASL_ENABLED_MECHANISMS.name} of listener {self._listener}, by which brokers connect",
                ).at(self._config.place(SASL_MECHANISM_INTER_BROKER_PROTOCOL))
            )
