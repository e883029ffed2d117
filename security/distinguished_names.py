r"""The name in a certificate as Java writes it: the form of RFC 2253, which is what ACLs and mapping rules are about.

    CN=a\,b,OU=x y,1.2.840.113549.1.9.1=#16056540782e79,O=o,C=DE

The last part of the name comes first. Types with a keyword are CN, C, L, ST, O, OU, STREET, DC and UID; any other is
written as a number, and its value in hex, with tag and length. So is a value that is no string.
Source: javax.security.auth.x500.X500Principal.getName, sun.security.x509.AVA.toRFC2253String.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.security.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    DerError,
    Element,
    object_identifier,
    single,
)

KEYWORDS: Final[Mapping[str, str]] = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_CHARSETS: Final[Mapping[int, str]] = {
    0x0C: "utf-8",  # UTF8String
    0x13: "utf-8",  # PrintableString
    0x14: "utf-8",  # T61String
    0x16: "utf-8",  # IA5String
    0x1B: "utf-8",  # GeneralString
    0x1E: "utf-8",  # BMPString
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = frozenset(" \r")


def rfc2253_name(name: bytes) -> str:
    """The text of a name in DER; empty for one without parts. Raises DerError."""
    return _text_of(name, _escaped)


def canonical_name(name: bytes) -> str:
    """A text that is the same for names between which only blanks and cases differ. Raises DerError."""
    return _text_of(name, lambda text: _escaped(" ".join(text.split()).lower()))


def _text_of(name: bytes, write: Callable[[str], str]) -> str:
    parts = [_relative(part, write) for part in single(name).expect(SEQUENCE).children()]
    return ",".join(reversed(parts))


def _relative(part: Element, write: Callable[[str], str]) -> str:
    return "+".join(_attribute(attribute, write) for attribute in part.expect(SET).children())


def _attribute(attribute: Element, write: Callable[[str], str]) -> str:
    try:
        kind, value = attribute.expect(SEQUENCE).children()
    except ValueError:
        raise DerError("a part of the name has no value, or several") from None
    number = object_identifier(kind.expect(OBJECT_IDENTIFIER).content)
    keyword, charset = KEYWORDS.get(number), _CHARSETS.get(value.tag)
    if keyword is None or charset is None:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={write(value.content.decode(charset, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(_of(character) for character in text)
    lead = next((at for at, character in enumerate(escaped) if character not in _BLANKS), len(escaped))
    end = next(
        (at for at in range(len(escaped), 0, -1) if escaped[at - 1] not in _BLANKS), 0
    )  # behind the last one that is no blank
    return "".join(
        f"\\{character}" if at < lead or at >= end else character for at, character in enumerate(escaped)
    )


def _of(character: str) -> str:
    if character in _ESCAPED:
        return f"\\{character}"
    return "\\00" if character == "\0" else character
