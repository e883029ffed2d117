"""Reads DER, the encoding of certificates (X.690): elements of a tag, a length and a content.

Only what names and stores need: tags below 31, definite lengths. Anything else raises DerError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31
_LONG_FORM: Final = 0x80
_MOST_LENGTH_BYTES: Final = 4


class DerError(ValueError):
    """These bytes are not the DER that is expected here."""


class Element(NamedTuple):
    """One element: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes

    def children(self) -> Iterator[Element]:
        """The elements that the content consists of."""
        return elements(self.content)

    def expect(self, tag: int) -> Element:
        """This element; raises DerError for another tag."""
        if self.tag != tag:
            raise DerError(f"an element has tag {self.tag:#04x}, where {tag:#04x} is expected")
        return self


def elements(data: bytes) -> Iterator[Element]:
    """The elements that `data` consists of, one behind the other. Raises DerError."""
    position = 0
    while position < len(data):
        element, position = _element(data, position)
        yield element


def single(data: bytes) -> Element:
    """The one element that `data` is. Raises DerError where something follows it."""
    element, end = _element(data, 0)
    if end != len(data):
        raise DerError(f"{len(data) - end} bytes follow the element")
    return element


def _element(data: bytes, start: int) -> tuple[Element, int]:
    if start + 2 > len(data):
        raise DerError("an element is cut off")
    tag, length, position = data[start], data[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise DerError("a tag takes several bytes")
    if length >= _LONG_FORM:
        count = length - _LONG_FORM
        if not 1 <= count <= _MOST_LENGTH_BYTES or position + count > len(data):
            raise DerError("a length is indefinite, too long, or cut off")
        length = int.from_bytes(data[position : position + count])
        position += count
    end = position + length
    if end > len(data):
        raise DerError(f"an element of {length} bytes is cut off")
    return Element(tag, data[position:end], data[start:end]), end


def object_identifier(content: bytes) -> str:
    """An OBJECT IDENTIFIER as text, 2.5.4.3. Raises DerError."""
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier is empty or cut off")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
