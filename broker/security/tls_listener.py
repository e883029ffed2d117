"""TlsListener: the certificate and the trust of one listener, which are replaced while it is open.

New connections get the context that holds when they begin; open ones stay as they are. A file that has changed is read
again (its time of modification, or a new setting of its key, says so); one that cannot be used leaves the old context,
and is counted and logged. What may be replaced by what are the rules of Kafka's SslFactory.createNewSslEngineFactory.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.security import settings as keys
from barnabas.security.certificates import check_replacement, first_expiry_s
from barnabas.security.contexts import server_context, verify_own_handshake
from barnabas.security.errors import SettingError
from barnabas.security.settings import TlsSettings
from barnabas.security.stores import ReadFile, Stores, load_stores, read_file, store_files

logger = logging.getLogger("barnabas.security")

UNKNOWN_TIME: Final = -1
ModifiedNs = Callable[[str], int]
"""When a file was changed last, in ns; UNKNOWN_TIME where it cannot be said."""


def modified_ns(path: str) -> int:
    """The ModifiedNs of a real disk."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return UNKNOWN_TIME


class ReplacementRules(NamedTuple):
    """What a replaced certificate may differ in, and whether brokers trust it."""

    allow_dn_changes: bool = False
    allow_san_changes: bool = False
    is_inter_broker: bool = False
    """Whether the listener's own trust store has to accept its certificate, since brokers are its clients."""


class Loaded(NamedTuple):
    """The stores of a listener as they were read, and what is made of them."""

    settings: TlsSettings
    stores: Stores
    context: ssl.SSLContext
    modified: tuple[int, ...]
    expires_s: float


class TlsListener:
    """One listener's TLS. `load` may run in a thread; the other methods belong to the event loop."""

    def __init__(
        self,
        name: str,
        settings: TlsSettings,
        rules: ReplacementRules,
        *,
        read: ReadFile = read_file,
        modified: ModifiedNs = modified_ns,
    ) -> None:
        """Raises SettingError where the stores cannot be used."""
        self.name = name
        self.rules = rules
        self.reloads = 0
        self.reload_failures = 0
        self._read = read
        self._modified = modified
        self._failed_with: tuple[TlsSettings, tuple[int, ...]] | None = None
        self._loaded = self.load(settings)
        if rules.is_inter_broker:
            verify_own_handshake(self._loaded.settings, self._loaded.stores, self._loaded.stores)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of connections that begin now."""
        return self._loaded.context

    @property
    def expires_s(self) -> float:
        """When the first certificate of its chain expires, in seconds since 1970."""
        return self._loaded.expires_s

    @property
    def trusted(self) -> tuple[bytes, ...] | None:
        """The certificates of its trust store, in DER; None where it trusts those of the system."""
        return self._loaded.stores.trusted

    @property
    def settings(self) -> TlsSettings:
        """The settings that hold."""
        return self._loaded.settings

    def load(self, settings: TlsSettings) -> Loaded:
        """Reads the stores and makes a context, which changes nothing. Raises SettingError."""
        times = self._times(
            settings
        )  # before the files are read: a change meanwhile is noticed the next time
        stores = load_stores(settings, self._read)
        context = server_context(settings, stores)
        assert stores.key_store is not None
        return Loaded(settings, stores, context, times, first_expiry_s(stores.key_store.chain))

    def has_changed(self, settings: TlsSettings) -> bool:
        """Whether `settings`, or the files that they name, are others than those that hold or have failed."""
        now = settings, self._times(settings)
        return now not in {(self._loaded.settings, self._loaded.modified), self._failed_with}

    def check(self, loaded: Loaded, rules: ReplacementRules) -> None:
        """Raises SettingError unless `loaded` may take the place of what holds now."""
        old, new = self._loaded.stores, loaded.stores
        assert old.key_store is not None
        assert new.key_store is not None
        check_replacement(
            old.key_store.chain,
            new.key_store.chain,
            allow_dn_changes=rules.allow_dn_changes,
            allow_san_changes=rules.allow_san_changes,
        )
        if old.trusted is None and new.trusted is not None:
            raise SettingError(
                keys.TRUSTSTORE_LOCATION,
                loaded.settings[keys.TRUSTSTORE_LOCATION],
                "cannot be added to a listener that is open",
                phrase="Cannot add SSL truststore to an existing listener for which no truststore was configured.",
            )
        if rules.is_inter_broker:
            verify_own_handshake(loaded.settings, old, new)
            verify_own_handshake(loaded.settings, new, old)

    def adopt(self, loaded: Loaded) -> None:
        """New connections get this context."""
        is_new = loaded.stores.key_store is not None and loaded.stores != self._loaded.stores
        self._loaded = loaded
        self._failed_with = None
        self.reloads += 1
        if is_new:
            logger.info("listener %s: its certificate and trusted certificates were read again", self.name)

    def failed(self, settings: TlsSettings, error: Exception) -> None:
        """The stores could not be read, or may not replace those that hold: these stay."""
        self._failed_with = settings, self._times(settings)
        self.reload_failures += 1
        logger.error("listener %s keeps the certificates that it has: %s", self.name, error)

    def _times(self, settings: TlsSettings) -> tuple[int, ...]:
        return tuple(self._modified(path) for path in store_files(settings))
