r"""Turns a regular expression of Java into one of Python that matches the same, or refuses it.

What both write and mean alike is copied; `.`, `$`, `(?<name>`, `\k<name>`, `\p{Alpha}`, `\Q...\E`, `\uXXXX` and `\e`
are rewritten. Whatever else would differ raises JavaRegexError: `\b` and `\p{L}` (Unicode's tables), `\G`, `\R`, `\X`,
`\h`, `\v`, `\Z`, classes within classes and `&&`, octal escapes, references to groups that come later, most flags.
Compile the result with re.ASCII. tests/conformance/test_java_regex.py compares with java.util.regex.
"""

from __future__ import annotations

import re
from typing import Final

_ANY: Final = "[^\n\r\u0085\u2028\u2029]"
_END: Final = "(?=(?:\r\n|(?<!\r)\n|[\r\u0085\u2028\u2029])?\\Z)"
_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t-\\r",
}
_BOUNDARIES: Final = {"A": "\\A", "z": "\\Z"}
_SAME_CLASSES: Final = "dDwWsS"
_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_QUANTIFIER: Final = re.compile(r"[*+?]|\{[0-9]{1,5}(?:,[0-9]{0,5})?\}")
_GROUP: Final = re.compile(r"\?(?:[:=!>]|<[=!]|<([a-zA-Z][a-zA-Z0-9]*)>|i:)")


class JavaRegexError(ValueError):
    """The expression is not valid in Java, or would match something else in Python. The message is for people."""


def translate(pattern: str) -> str:
    """The expression for Python's re, with re.ASCII. Raises JavaRegexError."""
    translated = _Translator(pattern).run()
    try:
        re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise JavaRegexError(f"{pattern!r} cannot be used: {error}") from None
    return translated


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._groups = 0
        self._open: list[int] = []  # the numbers of the groups that are open; 0 for one without a number
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}
        self._may_repeat = False  # whether a quantifier may follow

    def run(self) -> str:
        if self._pattern.startswith("(?i)"):
            self._out.append("(?i)")
            self._at = len("(?i)")
        while self._at < len(self._pattern):
            self._next()
        if self._open:
            raise self._error("a group is not closed")
        return "".join(self._out)

    def _error(self, reason: str) -> JavaRegexError:
        return JavaRegexError(f"{self._pattern!r} cannot be used: {reason}")

    def _take(self, count: int = 1) -> str:
        taken = self._pattern[self._at : self._at + count]
        if len(taken) < count:
            raise self._error("it ends too early")
        self._at += count
        return taken

    def _peek(self, count: int = 1) -> str:
        return self._pattern[self._at : self._at + count]

    def _next(self) -> None:
        quantifier = _QUANTIFIER.match(self._pattern, self._at)
        if quantifier is not None:
            self._repeat(quantifier[0])
            return
        character = self._take()
        self._may_repeat = True
        if character == "\\":
            self._out.append(self._escape())
        elif character == "[":
            self._out.append(self._class())
        elif character == "(":
            self._begin_group()
        elif character == ")":
            self._end_group()
        elif character in "^|$":
            self._may_repeat = False
            self._out.append({"^": "\\A", "|": "|", "$": _END}[character])
        elif character == ".":
            self._out.append(_ANY)
        elif character == "{":
            raise self._error("{ begins no quantifier")
        else:
            self._out.append(re.escape(character))

    def _repeat(self, quantifier: str) -> None:
        if not self._may_repeat:
            raise self._error(f"there is nothing that {quantifier} could repeat")
        if quantifier[0] == "{" and "," in quantifier:
            low, high = quantifier[1:-1].split(",")
            if high and int(low) > int(high):
                raise self._error(f"{quantifier} repeats more often at least than at most")
        self._at += len(quantifier)
        self._out.append(quantifier)
        if self._peek() in {"?", "+"}:
            self._out.append(self._take())
        self._may_repeat = False

    # ---- groups

    def _begin_group(self) -> None:
        self._may_repeat = False
        if self._peek() != "?":
            self._number_group()
            self._out.append("(")
            return
        found = _GROUP.match(self._pattern, self._at)
        if found is None:
            raise self._error(f"({self._peek(3)} is not supported")
        self._at = found.end()
        name = found[1]
        if name is None:
            self._open.append(0)
            self._out.append(f"({found[0]}")
            return
        if name in self._names:
            raise self._error(f"the group {name} is named twice")
        self._number_group()
        self._names[name] = self._groups
        self._out.append(f"(?P<{name}>")

    def _number_group(self) -> None:
        self._groups += 1
        self._open.append(self._groups)

    def _end_group(self) -> None:
        if not self._open:
            raise self._error("a group is closed that is not open")
        self._closed.add(self._open.pop())
        self._out.append(")")

    # ---- escapes

    def _escape(self) -> str:
        character = self._take()
        if character in _SAME_CLASSES:
            return f"\\{character}"
        if character in _BOUNDARIES:
            self._may_repeat = False
            return _BOUNDARIES[character]
        if character in "123456789":
            return self._reference(int(character))
        special = {
            "p": self._posix_class,
            "P": self._other_class,
            "Q": self._quoted,
            "k": self._named_reference,
        }
        return special[character]() if character in special else re.escape(self._literal(character))

    def _posix_class(self) -> str:
        return f"[{self._posix()}]"

    def _other_class(self) -> str:
        return f"[^{self._posix()}]"

    def _literal(self, character: str) -> str:
        r"""The character that \character stands for, within a class as well."""
        if character in _CHARACTERS:
            return _CHARACTERS[character]
        if character in "xu":
            return self._coded(2 if character == "x" else 4)
        if character.isascii() and character.isalnum():
            raise self._error(f"\\{character} is not supported")
        return character

    def _coded(self, digits: int) -> str:
        text = self._take(digits)
        if not re.fullmatch("[0-9a-fA-F]+", text):
            raise self._error(f"{text} is no code in hex")
        code = int(text, 16)
        if 0xD800 <= code < 0xE000:
            raise self._error("half a surrogate pair is not supported")
        return chr(code)

    def _posix(self) -> str:
        end = self._pattern.find("}", self._at)
        name = self._pattern[self._at + 1 : end]
        if self._peek() != "{" or end < 0 or name not in _POSIX:
            raise self._error(f"of \\p{{...}} only {', '.join(_POSIX)} are supported")
        self._at = end + 1
        return _POSIX[name]

    def _quoted(self) -> str:
        end = self._pattern.find("\\E", self._at)
        text = self._pattern[self._at :] if end < 0 else self._pattern[self._at : end]
        self._at = len(self._pattern) if end < 0 else end + 2
        self._may_repeat = bool(text)
        return re.escape(text)

    def _named_reference(self) -> str:
        found = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._at)
        if found is None or self._names.get(found[1]) not in self._closed:
            raise self._error("\\k names no group that comes before it")
        self._at = found.end()
        return f"(?P={found[1]})"

    def _reference(self, group: int) -> str:
        if group not in self._closed:
            raise self._error(f"\\{group} is no group that comes before it")
        if self._peek() in set("0123456789"):
            raise self._error(f"\\{group} is followed by a digit, which may belong to it or not")
        return f"(?:\\{group})"

    # ---- classes

    def _class(self) -> str:
        negated = self._peek() == "^"
        if negated:
            self._take()
        if self._peek() == "]":
            raise self._error("a class is empty, or has a ] that is not escaped")
        items: list[str] = []
        while self._peek() != "]":
            items.append(self._class_item())
        self._take()
        return f"[{'^' if negated else ''}{''.join(items)}]"

    def _class_item(self) -> str:
        if self._peek() == "\\" and self._peek(2)[1:] in set(_SAME_CLASSES + "pPQ"):
            return self._class_escape()
        first = self._class_character()
        if self._peek() != "-" or self._peek(2) in {"-]", "-"}:
            return _in_class(first)
        self._take()
        if self._peek() in {"[", "&"} or (
            self._peek() == "\\" and self._peek(2)[1:] in set(_SAME_CLASSES + "pPQ")
        ):
            raise self._error("a range of a class has no end")
        last = self._class_character()
        if ord(first) > ord(last):
            raise self._error(f"the range {first}-{last} is empty")
        return f"{_in_class(first)}-{_in_class(last)}"

    def _class_escape(self) -> str:
        self._take()
        character = self._take()
        if character == "p":
            item = self._posix()
        elif character in _SAME_CLASSES:
            item = f"\\{character}"
        else:
            raise self._error(f"\\{character} is not supported in a class")
        if self._peek() == "-" and self._peek(2) != "-]":
            raise self._error("a range of a class has no beginning")
        return item

    def _class_character(self) -> str:
        character = self._take()
        if character == "[":
            raise self._error("a class within a class is not supported")
        if character == "&" and self._peek() == "&":
            raise self._error("&& in a class is not supported")
        if character == "^":
            raise self._error("a ^ within a class must be escaped")
        if character == "\\":
            return self._literal(self._take())
        return character


def _in_class(character: str) -> str:
    return f"\\{character}" if not character.isalnum() and character.isascii() else character
