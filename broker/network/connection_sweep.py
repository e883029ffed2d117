"""ConnectionSweep: a periodic check of all connections, in place of a timer for each of them or for each request."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection import Connection
from barnabas.broker.network.request_memory import RequestMemory

logger = logging.getLogger("barnabas.network")

CLOSE_LINGER_S = 10.0
"""How long a closed connection may take to send its last responses."""

STALL_S = 10.0
STALL_BYTES = 16 * 1024
"""While memory is scarce, an unfinished request has to grow by STALL_BYTES in STALL_S, or its connection closes."""


class _Record:
    """The state of a connection at the last sweep; times in seconds."""

    __slots__ = ("closing_since", "idle_since", "unfinished_bytes", "unfinished_since")

    def __init__(self, now: float) -> None:
        self.idle_since = now
        self.closing_since: float | None = None
        self.unfinished_since = now
        self.unfinished_bytes = 0


class ConnectionSweep:
    """Closes connections that are idle for connections.max.idle.ms (negative: never), or that hold up others."""

    def __init__(self, max_idle_ms: int, memory: RequestMemory, complaints: RateLimit) -> None:
        self._max_idle_s = max_idle_ms / 1000 if max_idle_ms >= 0 else math.inf
        self._memory = memory
        self._complaints = complaints
        self._records: dict[Connection, _Record] = {}

    def watch(self, connection: Connection, now: float) -> None:
        self._records[connection] = _Record(now)

    def forget(self, connection: Connection) -> None:
        del self._records[connection]

    def longest_unused(self, connections: Iterable[Connection]) -> list[Connection]:
        """These connections, those first that have been idle the longest, to the precision of a sweep."""
        records = self._records
        return sorted(connections, key=lambda one: (one.active, records[one].idle_since))

    def sweep(self, now: float) -> None:
        """Checks every connection; called about once a second."""
        scarce = self._memory.exhausted
        for connection, record in list(self._records.items()):
            if connection.closing:
                self._hurry(connection, record, now)
            elif connection.active:
                connection.active = False
                record.idle_since = now
            elif now - record.idle_since >= self._max_idle_s and connection.waits_for_peer:
                logger.debug("closing an idle connection of %s", connection.info.client_host)
                connection.close()
            else:
                connection.read_on()
            if scarce:
                self._check_progress(connection, record, now)
            else:
                record.unfinished_bytes = 0
        self._memory.wake()

    def _hurry(self, connection: Connection, record: _Record, now: float) -> None:
        """A client that does not read could keep a closed connection open for ever."""
        if record.closing_since is None:
            record.closing_since = now
        elif now - record.closing_since >= CLOSE_LINGER_S:
            connection.abort()

    def _check_progress(self, connection: Connection, record: _Record, now: float) -> None:
        """Closes a connection that holds scarce memory for a request that it has stopped sending."""
        held = connection.unfinished_bytes
        progress = held - record.unfinished_bytes
        if not held or not 0 <= progress < STALL_BYTES:  # nothing begun, or one finished, or getting on
            record.unfinished_since = now
            record.unfinished_bytes = held
        elif now - record.unfinished_since >= STALL_S:
            host = connection.info.client_host
            self._complaints.warning(
                logger,
                ("stalled", host),
                "memory for requests is used up: closing the connection of %s, which has stopped sending "
                "a request after %d bytes",
                host,
                held,
            )
            connection.abort()
