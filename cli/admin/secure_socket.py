"""TLS of the client's connections: one context for a command, and what failed in words."""

from __future__ import annotations

import socket
from functools import cache
from typing import TYPE_CHECKING

from barnabas.cli.admin.errors import AdminError
from barnabas.security.errors import SettingError

if TYPE_CHECKING:
    import ssl

    from barnabas.security.client_settings import ClientSecurity


class TlsFailedError(Exception):
    """The handshake failed for a reason that stays: another attempt would fail as well."""


def wrap(plain: socket.socket, security: ClientSecurity, host: str) -> socket.socket:
    """The socket after the handshake. Raises TlsFailedError, OSError where the connection is lost, and AdminError."""
    import ssl

    from barnabas.security.tls_errors import explain

    context = _context(security)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        raise OSError(explain(error, host)) from None
    except ssl.SSLError as error:
        raise TlsFailedError(explain(error, host)) from None


def rejection(error: OSError) -> str | None:
    """What the server has against the client, where a read after the handshake failed for that (TLS 1.3)."""
    import ssl

    from barnabas.security.tls_errors import explain

    is_alert = isinstance(error, ssl.SSLError) and "ALERT" in (getattr(error, "reason", None) or "").upper()
    return explain(error) if is_alert else None


@cache
def _context(security: ClientSecurity) -> ssl.SSLContext:
    """The files are read once for a command."""
    try:
        context = security.context()
    except SettingError as error:
        raise AdminError(str(error)) from None
    assert context is not None
    return context
