"""What is weak in a configuration that is valid: said by `barnabas config check`, and by each start.

Nothing here refuses anything. A configuration that protects nothing at all is not weak: its operator expects no
protection. This module is imported where a listener, the authorizer or the HTTP port protects something.

The rules are functions over a `View`: the configuration, and what lies around it (files, certificates, the time).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.catalogue.barnabas import BARNABAS_HTTP_HOST, BARNABAS_OAUTHBEARER_ALLOW_UNSECURED
from barnabas.config.catalogue.controller import (
    CONTROLLER_LISTENER_NAMES,
    METADATA_LOG_DIR,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
)
from barnabas.config.catalogue.http import BARNABAS_HTTP_SECURITY_PROTOCOL
from barnabas.config.catalogue.log import LOG_DIR, LOG_DIRS
from barnabas.config.catalogue.network import LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS
from barnabas.config.catalogue.sasl import (
    SASL_ENABLED_MECHANISMS,
    SASL_JAAS_CONFIG,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE,
    SASL_OAUTHBEARER_EXPECTED_ISSUER,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
    SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
    SASL_SERVER_CALLBACK_HANDLER_CLASS,
)
from barnabas.config.catalogue.server import (
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUTHORIZER_CLASS_NAME,
    SUPER_USERS,
)
from barnabas.config.catalogue.tls import (
    DELEGATION_TOKEN_SECRET_KEY,
    SSL_ENDPOINT_IDENTIFICATION_ALGORITHM,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEYSTORE_LOCATION,
    SSL_PRINCIPAL_MAPPING_RULES,
    SSL_TRUSTSTORE_CERTIFICATES,
)
from barnabas.config.checks import is_loopback
from barnabas.config.http import PREFIX, has_login, has_tls, is_open, knows_its_clients
from barnabas.config.keys import ConfigKey
from barnabas.config.layers import Setting, Source
from barnabas.config.listeners import Listener, parse_protocol_map
from barnabas.config.messages import ConfigMessage, MessageKind, key_of_listener
from barnabas.config.tls import ignored_client_auth
from barnabas.security.token_settings import UNSECURED_VALIDATOR_HANDLER, VALIDATOR_HANDLER

DAY_S: Final = 86_400
SOON_DAYS: Final = 30
"""A certificate that expires within so many days is one to renew."""

_PUBLIC: Final = {SSL_KEYSTORE_CERTIFICATE_CHAIN.name, SSL_TRUSTSTORE_CERTIFICATES.name}
"""Passwords for Kafka, and no secrets."""

_KEY_FILES: Final = {SSL_KEYSTORE_LOCATION.name, SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE.name}
"""The settings of files with private keys."""
_METADATA_FILES: Final = ("__cluster_metadata-0", "bootstrap.checkpoint")

_OAUTHBEARER: Final = "OAUTHBEARER"
_READABLE: Final = {
    "PLAIN": ("passwords", "can read them"),
    _OAUTHBEARER: ("tokens", "can use them until they end"),
}
"""Mechanisms whose login is of use to whoever reads it: what they take, and what becomes of it."""

_JAVA_ATTRIBUTES: Final = {"CN", "C", "O", "OU", "L", "ST", "STREET", "DC", "UID"}
"""The names that Java writes; of other attributes it writes the number."""

_OID: Final = re.compile(r"[0-9]+(\.[0-9]+)+")
_ATTRIBUTE: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9.]*|[0-9]+(?:\.[0-9]+)+)\s*=")


class Store(NamedTuple):
    """The certificates of a listener, or of the HTTP port. Times are in seconds since 1970."""

    listener: str
    key: str
    """The setting that names the key store, and its place."""
    place: str
    expires_s: float
    trusted_expire_s: float | None = None
    """When the last of those in the trust store expires; None: it has none of its own."""


class SecretFile(NamedTuple):
    """A file that is a secret or holds some, and the setting that says so."""

    path: str
    what: str
    key: str
    place: str


class View(NamedTuple):
    """What the rules look at. `is_public` says whether every user of the machine may read a file."""

    config: BrokerConfig
    now_s: float
    stores: Sequence[Store] = ()
    files: Sequence[SecretFile] = ()
    is_public: Callable[[str], bool] = lambda _: False

    def message(self, key: ConfigKey[Any], text: str) -> ConfigMessage:
        """About a setting of this broker."""
        place = self.config.place(key) if self.config.is_set(key) else ""
        return ConfigMessage(MessageKind.WEAK, key.name, text, place)

    def mechanisms(self, listener: Listener) -> tuple[str, ...]:
        """The enabled mechanisms of a listener with logins."""
        return self.config.listener_value(listener.name, SASL_ENABLED_MECHANISMS)


def is_secured(config: BrokerConfig) -> bool:
    """Whether anything is to be protected."""
    return bool(config[AUTHORIZER_CLASS_NAME]) or any(_is_secured(each) for each in config.listeners)


def weaknesses(view: View) -> list[ConfigMessage]:
    """Everything that is weak, in the order of the rules."""
    return [found for rule in RULES for found in rule(view)]


def _is_secured(listener: Listener) -> bool:
    return listener.security_protocol != "PLAINTEXT"


def _has_logins(listener: Listener) -> bool:
    return listener.security_protocol.startswith("SASL_")


def _is_encrypted(listener: Listener) -> bool:
    return listener.security_protocol.endswith("SSL")


def _is_remote(listener: Listener) -> bool:
    """Whether other hosts reach it."""
    return not is_loopback(listener.host or "")


# ---- listeners


def _overheard_logins(view: View) -> Iterator[ConfigMessage]:
    for listener in view.config.listeners:
        if not _has_logins(listener) or _is_encrypted(listener) or not _is_remote(listener):
            continue
        told = [name for name in _READABLE if name in view.mechanisms(listener)]
        for name in told:
            what, use = _READABLE[name]
            text = (
                f"takes {what} (SASL mechanism {name}) over connections that are not encrypted: whoever is on the way "
                f"{use}"
            )
            yield view.message(LISTENERS, f"opens listener {listener.name}, which {text}")
        if not told:
            text = (
                "is not encrypted: whoever is on the way can read and change records, and send requests as the user "
                "that has logged in"
            )
            yield view.message(LISTENERS, f"opens listener {listener.name}, which {text}")


def _overheard_tokens(view: View) -> Iterator[ConfigMessage]:
    """The secrets of delegation tokens are in the responses to those who create and describe them."""
    for listener in view.config.listeners if view.config[DELEGATION_TOKEN_SECRET_KEY] else ():
        if _has_logins(listener) and not _is_encrypted(listener) and _is_remote(listener):
            yield view.message(
                LISTENERS,
                f"opens listener {listener.name}, which hands out secrets of delegation tokens over connections that "
                "are not encrypted: whoever is on the way can read them",
            )


def _open_beside_secured(view: View) -> Iterator[ConfigMessage]:
    for listener in view.config.listeners if is_secured(view.config) else ():
        if not _is_secured(listener) and _is_remote(listener):
            yield view.message(
                LISTENERS,
                f"opens listener {listener.name} to other hosts beside what is protected: it is not encrypted, and its "
                "clients are User:ANONYMOUS, without a login",
            )


def _logins_without_authorizer(view: View) -> Iterator[ConfigMessage]:
    names = ", ".join(listener.name for listener in view.config.listeners if _has_logins(listener))
    if names and not view.config[AUTHORIZER_CLASS_NAME]:
        yield view.message(
            AUTHORIZER_CLASS_NAME,
            f"names no authorizer: clients of listener {names} have to log in, and may do everything then",
        )


def _ignored_certificates(view: View) -> Iterator[ConfigMessage]:
    for listener in view.config.listeners:
        setting = ignored_client_auth(view.config, listener.name, listener.security_protocol)
        if setting is not None:
            text = (
                f"is {setting.text.strip()} for listeners of SSL alone: clients of listener {listener.name}, which is "
                f"SASL_SSL, show no certificate unless listener.name.{listener.name.lower()}.{setting.key} asks for one"
            )
            yield ConfigMessage(MessageKind.WEAK, setting.key, text, setting.place)


def _unchecked_names(view: View) -> Iterator[ConfigMessage]:
    """Between members of a cluster."""
    config = view.config
    if not config.is_member:
        return
    protocols = parse_protocol_map(config[LISTENER_SECURITY_PROTOCOL_MAP])
    peers = {
        config.inter_broker_listener,
        *(name.upper() for name in (config[CONTROLLER_LISTENER_NAMES] or ())[:1]),
    }
    for name in sorted(peers):
        setting = config.listener_setting(name, SSL_ENDPOINT_IDENTIFICATION_ALGORITHM)
        if protocols.get(name, "").endswith("SSL") and setting is not None and not setting.text.strip():
            yield ConfigMessage(
                MessageKind.WEAK,
                setting.key,
                f"is empty: this broker takes any certificate that its trust store vouches for as that of its peers "
                f"on {name}",
                setting.place,
            )


def _unsecured_tokens(view: View) -> Iterator[ConfigMessage]:
    for listener, handler in _token_listeners(view):
        setting = view.config.listener_setting(
            listener.name, BARNABAS_OAUTHBEARER_ALLOW_UNSECURED, _OAUTHBEARER
        )
        is_allowed = setting is not None and setting.text.strip().lower() == "true"
        if setting is not None and is_allowed and handler in ("", UNSECURED_VALIDATOR_HANDLER):
            text = (
                f"has listener {listener.name} take tokens of OAUTHBEARER that nobody has signed: every client can be "
                "whoever it wants"
            )
            yield ConfigMessage(MessageKind.WEAK, setting.key, text, setting.place)


def _tokens_of_every_issuer(view: View) -> Iterator[ConfigMessage]:
    for listener, handler in _token_listeners(view):
        issuer = view.config.listener_value(listener.name, SASL_OAUTHBEARER_EXPECTED_ISSUER, _OAUTHBEARER)
        if handler == VALIDATOR_HANDLER and not (issuer or "").strip():
            url = view.config.listener_value(listener.name, SASL_OAUTHBEARER_JWKS_ENDPOINT_URL, _OAUTHBEARER)
            yield view.message(
                SASL_OAUTHBEARER_EXPECTED_ISSUER,
                f"names none: listener {listener.name} takes tokens of every issuer whose keys are at {url}",
            )


def _overheard_providers(view: View) -> Iterator[ConfigMessage]:
    """Identity providers at other hosts that are asked without TLS."""
    for listener, handler in _token_listeners(view):
        if handler == VALIDATOR_HANDLER:
            yield from _plain_url(
                view,
                listener.name,
                SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
                f"whoever is on the way can replace the keys by which listener {listener.name} checks tokens, and be "
                "whoever they want to be",
            )
    for name in _token_peers(view.config):
        yield from _plain_url(
            view,
            name,
            SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
            f"whoever is on the way can read what this broker proves itself by, and the token by which it logs in to "
            f"its peers on {name}",
        )


def _plain_url(
    view: View, listener: str, key: ConfigKey[str | None], consequence: str
) -> Iterator[ConfigMessage]:
    setting = view.config.listener_setting(listener, key, _OAUTHBEARER)
    parts = urlsplit("" if setting is None else setting.text.strip())
    if setting is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        text = f"asks the identity provider at {parts.hostname} over a connection that is not encrypted: {consequence}"
        yield ConfigMessage(MessageKind.WEAK, setting.key, text, setting.place)


def _token_peers(config: BrokerConfig) -> Iterator[str]:
    """The listeners of brokers and controllers that this member of a cluster logs in to by OAUTHBEARER."""
    if not config.is_member:
        return
    protocols = parse_protocol_map(config[LISTENER_SECURITY_PROTOCOL_MAP])
    controllers = [name.upper() for name in (config[CONTROLLER_LISTENER_NAMES] or ())[:1]]
    peers = {
        config.inter_broker_listener: SASL_MECHANISM_INTER_BROKER_PROTOCOL,
        **dict.fromkeys(controllers, SASL_MECHANISM_CONTROLLER_PROTOCOL),
    }
    for name, mechanism in sorted(peers.items(), key=lambda peer: peer[0]):
        if protocols.get(name, "").startswith("SASL_") and config[mechanism].strip().upper() == _OAUTHBEARER:
            yield name


def _token_listeners(view: View) -> Iterator[tuple[Listener, str]]:
    """The listeners that take tokens, each with the class that is named to check them."""
    for listener in view.config.listeners:
        if _has_logins(listener) and _OAUTHBEARER in view.mechanisms(listener):
            prefix = f"listener.name.{listener.name.lower()}.{_OAUTHBEARER.lower()}."
            own = view.config.unknown.get(prefix + SASL_SERVER_CALLBACK_HANDLER_CLASS.name)
            yield listener, "" if own is None else own.text.strip()


# ---- the authorizer


def _default_allow(view: View) -> Iterator[ConfigMessage]:
    if view.config[AUTHORIZER_CLASS_NAME] and view.config[ALLOW_EVERYONE_IF_NO_ACL_FOUND]:
        yield view.message(
            ALLOW_EVERYONE_IF_NO_ACL_FOUND, "leaves everything that no ACL covers open to all clients"
        )


def _super_users(view: View) -> Iterator[ConfigMessage]:
    config = view.config
    users = [user.strip() for user in config[SUPER_USERS].split(";") if user.strip()]
    if users and not config[AUTHORIZER_CLASS_NAME]:
        yield view.message(SUPER_USERS, f"has no effect: {AUTHORIZER_CLASS_NAME.name} names no authorizer")
        return
    names_are_javas = not any(_maps_names(config, listener) for listener in config.listeners)
    for user in users:
        what = _mangled(user.partition(":")[2], names_are_javas=names_are_javas)
        if what is not None:
            yield view.message(SUPER_USERS, f"has {user}, which is likely to match nobody: {what}")


def _maps_names(config: BrokerConfig, listener: Listener) -> bool:
    return config.listener_value(listener.name, SSL_PRINCIPAL_MAPPING_RULES).strip() != "DEFAULT"


def _mangled(name: str, *, names_are_javas: bool) -> str | None:
    """Why no client has this name; None where one may."""
    if name != name.strip():
        return "it begins with a space"
    if re.search(r",\s*User:", name):
        return "principals are separated by semicolons"
    if name[:1] in ('"', "'"):
        return "quotes are part of a name here"
    if name.startswith("/") and "=" in name:
        return "a certificate's name has commas, as CN=alice,O=acme"
    first = _ATTRIBUTE.match(name)
    if first is None or first[1].upper() not in _JAVA_ATTRIBUTES or not names_are_javas:
        return None
    return _mangled_dn(re.split(r"(?<!\\),", name))


def _mangled_dn(parts: Iterable[str]) -> str | None:
    for part in parts:
        attribute, _, value = part.partition("=")
        if part != part.strip() or attribute != attribute.strip() or value != value.lstrip():
            return "a certificate's name has no spaces around its commas and equals signs"
        if attribute not in _JAVA_ATTRIBUTES and not _OID.fullmatch(attribute):
            return (
                f"a certificate's name has no {attribute}; its attributes are {', '.join(sorted(_JAVA_ATTRIBUTES))}, "
                "and others by their number"
            )
    return None


# ---- the HTTP port


def _open_http_port(view: View) -> Iterator[ConfigMessage]:
    config = view.config
    if not is_open(config) or is_loopback(config[BARNABAS_HTTP_HOST]):
        return
    if not knows_its_clients(config) and is_secured(config):
        yield view.message(
            BARNABAS_HTTP_HOST,
            "opens the HTTP port to other hosts, and it asks for no login: whoever reaches it sees the names of topics "
            f"and groups, and may have topics compacted; {BARNABAS_HTTP_SECURITY_PROTOCOL.name}=SASL_SSL has it ask",
        )
    elif has_login(config) and not has_tls(config):
        yield view.message(
            BARNABAS_HTTP_SECURITY_PROTOCOL,
            "has the HTTP port take passwords over connections that are not encrypted: whoever is on the way can read "
            "them",
        )


# ---- certificates and files


def _certificates(view: View) -> Iterator[ConfigMessage]:
    for store in view.stores:
        what = _expiry(store.expires_s, view.now_s)
        if what is not None:
            text = f"has a certificate of listener {store.listener} that {what}"
            yield ConfigMessage(MessageKind.WEAK, store.key, text, store.place)
        if store.trusted_expire_s is not None and store.trusted_expire_s <= view.now_s:
            text = f"is of listener {store.listener}, which trusts no certificate that has not expired"
            yield ConfigMessage(MessageKind.WEAK, store.key, text, store.place)


def _expiry(expires_s: float, now_s: float) -> str | None:
    day = datetime.fromtimestamp(expires_s, UTC).date().isoformat()
    if expires_s <= now_s:
        return f"has expired on {day}: clients refuse it"
    days = int((expires_s - now_s) / DAY_S)
    return f"expires on {day}, in {days} days" if days < SOON_DAYS else None


def _public_files(view: View) -> Iterator[ConfigMessage]:
    seen = set()
    for file in (*view.files, *_settings_files(view.config)):
        if file.path in seen:
            continue
        seen.add(file.path)
        if view.is_public(file.path):
            text = f"{file.what} {file.path}, which every user of this machine can read: chmod o-r"
            yield ConfigMessage(MessageKind.WEAK, file.key, text, file.place)


def _public_metadata(view: View) -> Iterator[ConfigMessage]:
    """The keys of SCRAM's users are in the metadata log, its snapshots, and the file from which the first ones come."""
    config = view.config
    if not any(
        name.startswith("SCRAM-")
        for listener in config.listeners
        if _has_logins(listener)
        for name in view.mechanisms(listener)
    ):
        return
    key = METADATA_LOG_DIR if config[METADATA_LOG_DIR] else LOG_DIRS if config[LOG_DIRS] else LOG_DIR
    directory = (config[METADATA_LOG_DIR] or config.log_dirs[0]).rstrip("/")
    public = [path for name in _METADATA_FILES if view.is_public(path := f"{directory}/{name}")]
    if public:
        text = (
            f"has the keys of SCRAM's users in {' and '.join(public)}, which every user of this machine can read: "
            f"chmod o-rx {directory}"
        )
        yield view.message(key, text)


def _settings_files(config: BrokerConfig) -> Iterator[SecretFile]:
    """The files of properties with a secret in them, and the stores of keys that settings name."""
    for setting in _all_settings(config):
        base = key_of_listener(setting.key) or BROKER_KEYS.get(setting.key)
        if base is None:
            continue
        name = base.name.removeprefix(PREFIX)
        if (
            setting.source is Source.FILE
            and base.sensitive
            and name not in _PUBLIC
            and _is_secret(name, setting)
        ):
            path = setting.place.rpartition(" line ")[0]
            yield SecretFile(path, "is a secret in", setting.key, setting.place)
        if name in _KEY_FILES and setting.text.strip():
            yield SecretFile(setting.text.strip(), "names a private key,", setting.key, setting.place)


def _is_secret(name: str, setting: Setting) -> bool:
    """A login module without options is none (SCRAM)."""
    return bool(setting.text.strip()) and (name != SASL_JAAS_CONFIG.name or "=" in setting.text)


def _all_settings(config: BrokerConfig) -> Iterator[Setting]:
    """The effective setting of every key, known or not."""
    yield from config.settings()
    yield from config.unknown.values()


def is_public(path: str) -> bool:
    """Whether every user of this machine may read a file: by its mode, and those of the directories above it."""
    try:
        real = Path(path).resolve(strict=True)
        if not os.stat(real).st_mode & stat.S_IROTH:
            return False
        return all(os.stat(above).st_mode & stat.S_IXOTH for above in real.parents)
    except (OSError, ValueError, RuntimeError):  # a circle of links
        return False


RULES: Final[tuple[Callable[[View], Iterator[ConfigMessage]], ...]] = (
    _overheard_logins,
    _overheard_tokens,
    _open_beside_secured,
    _logins_without_authorizer,
    _ignored_certificates,
    _unchecked_names,
    _unsecured_tokens,
    _tokens_of_every_issuer,
    _overheard_providers,
    _default_allow,
    _super_users,
    _open_http_port,
    _certificates,
    _public_files,
    _public_metadata,
)
