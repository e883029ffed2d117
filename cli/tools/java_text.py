"""Text as the Java virtual machine formats it, so that the lines equal those of Kafka's tool."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Sequence
from typing import Final

_REPLACEMENT: Final = "\ufffd"
_HANDLER: Final = "barnabas-java"
_MASK: Final = 0xFFFFFFFF


def decode_utf8(data: bytes) -> str:
    """`new String(data, UTF_8)`: invalid bytes become U+FFFD, as many as in Java."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", _HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD for what Python would replace at once; an encoded surrogate counts as one where Python sees three."""
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    if data[start] != 0xED or not 0xA0 <= data[start + 1 : start + 2].ljust(1)[0] <= 0xBF:
        return _REPLACEMENT, error.end
    if start + 2 >= len(data):
        return _REPLACEMENT, len(data)
    is_whole = data[start + 2] & 0xC0 == 0x80
    return _REPLACEMENT, start + (3 if is_whole else 2)


codecs.register_error(_HANDLER, _replace)


def format_double(value: float) -> str:
    """`Double.toString(value)`: the shortest digits that mean the same number, and of two digits the nearest."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(abs(value))
    if not 1e-3 <= abs(value) < 1e7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{digits[: exponent + 1].ljust(exponent + 1, '0')}.{digits[exponent + 1 :] or '0'}"


def _digits(value: float) -> tuple[str, int]:
    """The significant digits, and the power of ten of the first."""
    places = len(f"{value!r}".partition("e")[0].replace(".", "").strip("0"))
    mantissa, _, exponent = f"{value:.{max(places - 1, 1)}e}".partition("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def hash_map_order(keys: Iterable[str], *, is_asked_again: bool) -> Sequence[str]:
    """The order of a java.util.HashMap whose distinct keys came, in this order, through computeIfAbsent.

    That puts a key before the others in its bucket, and grows the map at the call after the one that filled it:
    `is_asked_again` says whether there was a call after the last new key.
    """
    inserted = list(keys)
    inserted.reverse()
    buckets = 16
    for size in range(len(inserted) + is_asked_again):
        if size > buckets * 3 // 4:
            buckets *= 2
    return sorted(inserted, key=lambda key: _spread_hash(key) & (buckets - 1))


def _spread_hash(text: str) -> int:
    """HashMap's hash of a String: its hashCode, the upper half folded into the lower."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _MASK
    return code ^ code >> 16


def file_text(path: str) -> str:
    """`new File(path).toString()`: no doubled slashes and none at the end."""
    while "//" in path:
        path = path.replace("//", "/")
    return path.rstrip("/") or path[:1]
