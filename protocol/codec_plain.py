"""The memory access of codec_engine in Python; compiled, it has the same names from codec_c.pxd.

Here an address is the frame itself, a slot is an attribute's name, and a buffer is a bytearray. Names of builtin
functions save a call for each field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.wire import Frame


def start_of(frame: Frame) -> Frame:
    """The address of the frame."""
    return frame


def unsigned_at(data: Frame, at: int, width: int) -> int:
    """The number of `width` bytes."""
    return int.from_bytes(data[at : at + width], "big")


def signed_at(data: Frame, at: int, width: int) -> int:
    """The number of `width` bytes in two's complement."""
    return int.from_bytes(data[at : at + width], "big", signed=True)


def data_between(data: Frame, at: int, stop: int) -> bytes:
    """A copy."""
    return bytes(data[at:stop])


def text_between(data: Frame, at: int, stop: int) -> str:
    """The text, with U+FFFD for what is not UTF-8."""
    return str(data[at:stop], "utf-8", "replace")


def slot_of(cls: type, name: str) -> str:
    """The place of the attribute `name` in objects of `cls`."""
    return name


set_slot = setattr
"""Sets the attribute of a slot."""


get_slot = getattr
"""The attribute of a slot; raises AttributeError if it is not set."""


new = object.__new__
"""A new object of a class without any attributes."""


new_buffer = bytearray
"""An empty buffer."""


def free_buffer(buffer: bytearray) -> None:
    """Releases its memory."""


put_byte = bytearray.append
"""Appends one byte."""


def put_unsigned(buffer: bytearray, value: int, width: int) -> None:
    """Appends a number of `width` bytes."""
    buffer += value.to_bytes(width, "big")


def put_number(buffer: bytearray, value: int, width: int, is_signed: bool) -> None:
    """Appends a number of `width` bytes. Raises OverflowError for one that is too large, TypeError for other values."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    buffer += value.to_bytes(width, "big", signed=is_signed)


put_data = bytearray.extend
"""Appends bytes."""


def text_size(text: str) -> int:
    """The size in bytes of UTF-8. Raises UnicodeEncodeError for lone surrogates."""
    return len(text.encode())


def put_text(buffer: bytearray, text: str) -> None:
    """Appends text in UTF-8."""
    buffer += text.encode()


def take(buffer: bytearray) -> bytes:
    """The content of the buffer, which is empty afterwards."""
    taken = bytes(buffer)
    buffer.clear()
    return taken
