"""Writes names of users as Kafka does where they become parts of the names of metrics, and reads them back.

Source: org.apache.kafka.common.utils.Sanitizer, which is java.net.URLEncoder with %20 for a space and %2A for a star.
"""

from __future__ import annotations

from typing import Final

_AS_THEY_ARE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def sanitize(name: str) -> str:
    """The name with all but ASCII letters, digits, '.', '-' and '_' as %XX of its UTF-8 bytes."""
    return "".join(
        chr(byte) if byte in _AS_THEY_ARE else f"%{byte:02X}" for byte in name.encode("utf-8", "replace")
    )


def desanitize(name: str) -> str:
    """The name that `sanitize` was given."""
    from urllib.parse import unquote  # only a hook for quotas needs it

    return unquote(name)
