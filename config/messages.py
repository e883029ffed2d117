"""Messages about a valid configuration: unknown keys, keys without effect, repeated keys."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from barnabas.config.catalogue import BROKER_KEYS, DYNAMIC_BROKER_KEYS, TOPIC_KEYS
from barnabas.config.catalogue.gone import GONE, GONE_PREFIXES, OPEN_PREFIXES
from barnabas.config.keys import ConfigKey
from barnabas.config.layers import Setting

_PREFIXES_OF_LOGINS = ("sasl.login.", "sasl.oauthbearer.", "barnabas.oauthbearer.")

# Keys that can be set for one mechanism of a listener (DynamicBrokerConfig.LISTENER_MECHANISM_CONFIGS).
MECHANISM_KEYS = {
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.server.callback.handler.class",
    *(name for name in BROKER_KEYS if name.startswith(_PREFIXES_OF_LOGINS)),
}


# The keys of TLS that act for a single listener as well as for all.
LISTENER_TLS_KEYS = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)

# All keys that act for a single listener as well as for all.
LISTENER_KEYS = {
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.server.max.receive.size",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.engine.factory.class",
    "ssl.principal.mapping.rules",
    *(name for name in MECHANISM_KEYS if name.startswith(_PREFIXES_OF_LOGINS) and name != "sasl.login.class"),
    *LISTENER_TLS_KEYS,
}

# Keys that act for one mechanism of a listener, and nowhere else.
MECHANISM_ONLY_KEYS = {"sasl.jaas.config", "sasl.server.callback.handler.class"}


class MessageKind(Enum):
    """The kinds of messages. All but the last are warnings: the file does not mean what its author expects, or what
    it asks for is weak (broker/security/weaknesses.py)."""

    UNKNOWN = "unknown"
    GONE = "gone"
    REPEATED = "repeated"
    UNENFORCED = "not enforced"
    WEAK = "weak"
    INERT = "no effect"


class ConfigMessage(NamedTuple):
    """One message: its kind, the key, the text about it, and the place where the key is set."""

    kind: MessageKind
    key: str
    text: str
    place: str = ""

    @property
    def is_warning(self) -> bool:
        """True for the kinds that `config check --strict` fails on."""
        return self.kind is not MessageKind.INERT

    def __str__(self) -> str:
        return f"{self.place}: {self.key} {self.text}" if self.place else f"{self.key} {self.text}"

    def __repr__(self) -> str:
        return f"<ConfigMessage {self.kind.value}: {self}>"


def message_about(setting: Setting, key: ConfigKey[Any] | None) -> ConfigMessage | None:
    """The message about a single setting; None when Barnabas acts on its key."""
    if key is not None:
        return _about_known(setting, key)
    name = setting.key
    if remedy := GONE.get(name) or _by_prefix(name, GONE_PREFIXES):
        return ConfigMessage(MessageKind.GONE, name, f"is not a key of Kafka 4.3: {remedy}", setting.place)
    if name in DYNAMIC_BROKER_KEYS:
        return _inert(setting, "it is only set while the broker runs, with kafka-configs")
    if note := _by_prefix(name, OPEN_PREFIXES):
        return _inert(setting, note)
    if (listener_key := key_of_listener(name)) is not None:
        return _about_listener_key(setting, listener_key)
    return ConfigMessage(MessageKind.UNKNOWN, name, _unknown(name), setting.place)


def _about_known(setting: Setting, key: ConfigKey[Any]) -> ConfigMessage | None:
    if key.name in MECHANISM_ONLY_KEYS:
        return _not_of_mechanism(setting)
    return None if key.acted_on else _inert(setting, key.use.note)


def _about_listener_key(setting: Setting, key: ConfigKey[Any]) -> ConfigMessage | None:
    """The message about a key with the prefix of a listener, or of a listener and a mechanism."""
    if key.name in MECHANISM_ONLY_KEYS:
        return None if mechanism_of(setting.key) else _not_of_mechanism(setting)
    of_all = _inert(setting, key.use.note or "it acts for all listeners alike, without the prefix")
    return None if key.name in LISTENER_KEYS else of_all


def repeated(first: Setting, second: Setting) -> ConfigMessage:
    """The message for a key that one file sets twice."""
    first_line = first.place.rpartition(" ")[2]
    text = f"is set again; it is also on line {first_line}, and the last one applies"
    return ConfigMessage(MessageKind.REPEATED, second.key, text, second.place)


def key_of_listener(name: str) -> ConfigKey[Any] | None:
    """The key behind listener.name.<listener>.<key> or, for some, listener.name.<listener>.<mechanism>.<key>; else
    None."""
    base = name_of_all_listeners(name)
    return None if base is None else BROKER_KEYS.get(base)


def name_of_all_listeners(name: str) -> str | None:
    """The part after listener.name.<listener>. or, for some keys, after the mechanism; None without that prefix."""
    if not name.startswith("listener.name."):
        return None
    _, _, rest = name.removeprefix("listener.name.").partition(".")
    of_mechanism = rest.partition(".")[2]
    return of_mechanism if of_mechanism in MECHANISM_KEYS else rest


def mechanism_of(name: str) -> str:
    """The <mechanism> of listener.name.<listener>.<mechanism>.<key>; empty without one."""
    base = name_of_all_listeners(name)
    if base is None:
        return ""
    of_listener = name.removeprefix("listener.name.").removesuffix(base).rstrip(".")
    return of_listener.partition(".")[2]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` most likely misspells, if one is close."""
    from difflib import get_close_matches  # only needed for a wrong key

    found = get_close_matches(name, candidates, n=1, cutoff=0.75)
    return found[0] if found else None


def _not_of_mechanism(setting: Setting) -> ConfigMessage:
    """Warns of what Kafka ignores: it belongs to a mechanism of a listener."""
    key = name_of_all_listeners(setting.key) or setting.key
    text = f"is ignored: it acts as listener.name.<listener>.<mechanism>.{key}"
    return ConfigMessage(MessageKind.UNENFORCED, setting.key, text, setting.place)


def _inert(setting: Setting, note: str) -> ConfigMessage:
    return ConfigMessage(MessageKind.INERT, setting.key, f"has no effect: {note}", setting.place)


def _by_prefix(name: str, prefixes: Mapping[str, str]) -> str | None:
    return next((text for prefix, text in prefixes.items() if name.startswith(prefix)), None)


def _unknown(name: str) -> str:
    topic_key = TOPIC_KEYS.get(name)
    if topic_key is not None and topic_key.synonyms:
        return f"is a key of topics; the broker's own is {topic_key.synonyms[0].name}"
    if topic_key is not None:
        return "is a key of topics, not of the broker"
    near = nearest(name, BROKER_KEYS)
    return "is not a configuration key" + (f"; did you mean {near}?" if near else "")
