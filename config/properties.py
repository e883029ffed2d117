"""The reader of server.properties, by the rules of java.util.Properties.load.

A logical line is one natural line (ended by LF, CR or CR LF), or several when each but the last ends in an odd number
of backslashes; the white space that starts a continuation is dropped. Blank lines, and lines whose first character is
# or !, are skipped, and a comment does not continue. The key ends at the first =, : or white space that is not
escaped; one = or : between key and value is dropped together with the white space around it. \\t \\n \\r \\f and
\\uXXXX are the usual escapes; a backslash before anything else is dropped. White space at the end of a value belongs to
it.

Example: `log.dirs : /a,\\` followed by `   /b` is the key `log.dirs` with the value `/a,/b`.

Java reads bytes as ISO-8859-1. Here a file that is valid UTF-8 is read as such, and any other as ISO-8859-1: the two
agree on ASCII, and a file in valid UTF-8 is not meant as ISO-8859-1.
"""

from collections.abc import Iterator
from typing import NamedTuple

WHITE_SPACE = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """A line that java.util.Properties rejects; `line` is its number, from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class Property(NamedTuple):
    """One key and its value as text, with the number of the line on which it starts."""

    key: str
    value: str
    line: int


def decode(data: bytes) -> str:
    """The text of a properties file; a byte order mark, which Java would take into the first key, is dropped."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def read_properties(text: str) -> list[Property]:
    """Every property of a file in its order, repeated keys included; raises PropertiesError for a bad \\u escape."""
    return [_parse(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with a property, continuations joined, with the number of its first natural line."""
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    number = 0
    while number < len(natural):
        start = number
        line = natural[number].lstrip(WHITE_SPACE)
        number += 1
        # A backslash alone continues nothing: what follows is a new line, which may be a comment.
        if not line or line[0] in "#!" or line == "\\":
            continue
        while _continues(line):
            following = natural[number].lstrip(WHITE_SPACE) if number < len(natural) else ""
            number += 1
            line = line[:-1] + following
        yield start + 1, line


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _parse(line: str, number: int) -> Property:
    end = _key_end(line)
    rest = line[end:].lstrip(WHITE_SPACE)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(WHITE_SPACE)
    return Property(_unescape(line[:end], number), _unescape(rest, number), number)


def _key_end(line: str) -> int:
    """The position of the first separator that is not escaped."""
    escaped = False
    for position, character in enumerate(line):
        if not escaped and (character in "=:" or character in WHITE_SPACE):
            return position
        escaped = character == "\\" and not escaped
    return len(line)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while (backslash := text.find("\\", position)) >= 0:
        parts.append(text[position:backslash])
        escaped = text[backslash + 1 : backslash + 2]
        position = backslash + 2
        if escaped == "u":
            parts.append(_unicode(text[position : position + 4], number))
            position += 4
        else:
            parts.append(ESCAPES.get(escaped, escaped))
    parts.append(text[position:])
    # Java writes what lies beyond the first plane as two escapes; together they are one character.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(digits: str, number: int) -> str:
    if len(digits) != 4 or not digits.isascii() or not digits.isalnum():
        raise PropertiesError(number, f"\\u{digits} is not an escape: \\u takes four hexadecimal digits")
    try:
        return chr(int(digits, 16))
    except ValueError:
        raise PropertiesError(
            number, f"\\u{digits} is not an escape: \\u takes four hexadecimal digits"
        ) from None
