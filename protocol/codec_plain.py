"""What codec_engine does with memory, in Python; compiled, it has the same names from codec_c.pxd instead.

A place in memory is the frame itself here, a slot is an attribute's name, and a buffer is a bytearray. Where a builtin
function does the same, the name stands for it: that saves a call for each field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.wire import Frame


def start_of(frame: Frame) -> Frame:
    """Where the frame is in memory."""
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
    """Where objects of `cls` keep their attribute `name`."""
    return name


set_slot = setattr
"""Sets the attribute that is kept there."""


get_slot = getattr
"""The attribute that is kept there; raises AttributeError when it has none."""


new = object.__new__
"""An object of a class, none of whose attributes is set."""


new_buffer = bytearray
"""Takes bytes one after the other."""


def free_buffer(buffer: bytearray) -> None:
    """Gives its memory back."""


put_byte = bytearray.append
"""Appends one byte."""


def put_unsigned(buffer: bytearray, value: int, width: int) -> None:
    """Appends a number of `width` bytes."""
    buffer += value.to_bytes(width, "big")


def put_number(buffer: bytearray, value: int, width: int, is_signed: bool) -> None:
    """Appends a number of `width` bytes. Raises OverflowError, TypeError where it is none of these."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    buffer += value.to_bytes(width, "big", signed=is_signed)


put_data = bytearray.extend
"""Appends bytes."""


def text_size(text: str) -> int:
    """How many bytes it has in UTF-8. Raises UnicodeEncodeError for lone surrogates."""
    return len(text.encode())


def put_text(buffer: bytearray, text: str) -> None:
    """Appends text in UTF-8."""
    buffer += text.encode()


def take(buffer: bytearray) -> bytes:
    """What is in the buffer, which is empty afterwards."""
    taken = bytes(buffer)
    buffer.clear()
    return taken
