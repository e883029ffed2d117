"""Message indexes as producers write them in front of a payload."""

from __future__ import annotations


def join_indexes(indexes: list[int], payload: bytes) -> bytes:
    """The inverse of `split_indexes`."""
    if indexes == [0]:
        return b"\0" + payload
    return b"".join(_encoded(number) for number in (len(indexes), *indexes)) + payload


def _encoded(number: int) -> bytes:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
