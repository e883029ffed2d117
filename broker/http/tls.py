"""HttpTls: HTTPS at the HTTP port. Its certificates are replaced while the port is open, as those of listeners are.

A handshake runs in the thread of its request, and nothing runs without one: so the files are looked at by the first
request of an interval. Imported where the port speaks HTTPS.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable

from barnabas.broker.security.tls_listener import ReplacementRules, TlsListener
from barnabas.security.errors import SettingError


class HttpTls:
    """TLS of the HTTP port. Called by threads that serve requests, several at a time."""

    def __init__(
        self,
        stores: TlsListener,
        rules: ReplacementRules,
        reload_interval_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Looks at the files of `stores` once in `reload_interval_s`; 0: never."""
        self.stores = stores
        self._rules = rules
        self._reload_interval_s = reload_interval_s
        self._now = now
        self._looked_s = now()
        self._lock = threading.Lock()

    def wrap(self, accepted: socket.socket) -> ssl.SSLSocket:
        """The stream of a connection, after its handshake, within the socket's timeout. Raises OSError."""
        return self.context().wrap_socket(accepted, server_side=True)

    def context(self) -> ssl.SSLContext:
        """The context that holds now."""
        with self._lock:
            if 0 < self._reload_interval_s <= self._now() - self._looked_s:
                self._looked_s = self._now()
                self._reload()
        return self.stores.context

    def _reload(self) -> None:
        stores, settings = self.stores, self.stores.settings
        if not stores.has_changed(settings):
            return
        try:
            loaded = stores.load(settings)
            stores.check(loaded, self._rules)
        except SettingError as error:
            stores.failed(settings, error)
        else:
            stores.adopt(loaded)


def say_goodbye(connection: socket.socket) -> None:
    """Has the client know that the answer is complete (close_notify), and does not wait for its own."""
    if isinstance(connection, ssl.SSLSocket):
        with contextlib.suppress(OSError, ValueError):
            connection.settimeout(0)
            connection.unwrap()
