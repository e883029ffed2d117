"""Whether a text is a regular expression of RE2, which groups of the consumer protocol subscribe with (KIP-848).

Only the syntax is read, as re2j reads it in Apache Kafka: `check_syntax` says what is wrong in the same words. Source:
https://github.com/google/re2/wiki/Syntax, and what re2j 1.8 accepts.
"""

from __future__ import annotations

import re
from typing import Final

MAX_REPEAT: Final = 1000
"""The highest count in braces."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CATEGORIES: Final = _words("""
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs Any
""")
SCRIPTS: Final = _words("""
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari
    Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew
    Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada
    Katakana Kayah_Li Kharoshthi Khmer Lao Latin Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic
    Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian
    Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese
    Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
    Ugaritic Unknown Vai Yi
""")
POSIX_CLASSES: Final = _words("""
    alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit
""")

_BRACES: Final = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_FLAGS: Final = re.compile(r"\(\?(?:[imsU]+(?:-[imsU]+)?|-[imsU]+)?([:)])")
_NAMED: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_POSIX: Final = re.compile(r"\[:\^?(\w*):\]", re.ASCII)
_PROPERTY: Final = re.compile(r"\\[pP](?:\{\^?(\w*)\}|(.))", re.ASCII | re.DOTALL)
_NUMBER: Final = re.compile(
    r"\\(?:0[0-7]{0,2}|[1-7][0-7]{1,2}|x(?:\{([0-9A-Fa-f]+)\}|[0-9A-Fa-f]{2}))", re.ASCII
)
_LETTERS: Final = frozenset("afnrtv")
_CLASSES: Final = frozenset("dDsSwW")
_ANCHORS: Final = frozenset("AbBz")
_MAX_CODE_POINT: Final = 0x10FFFF


class Re2SyntaxError(ValueError):
    """It is none; the text says why."""


def check_syntax(pattern: str) -> None:
    """Raises Re2SyntaxError for what RE2 does not take."""
    _Reader(pattern).read()


class _Reader:
    """Goes once over a pattern. `_can_repeat`: there is something before that an operator could repeat."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()
        self._can_repeat = False
        self._repeated = ""

    def read(self) -> None:
        while self._at < len(self._pattern):
            self._step()
        if self._depth:
            raise Re2SyntaxError("missing closing )")

    def _step(self) -> None:
        character = self._pattern[self._at]
        if character in "*+?":
            self._repeat(character)
        elif character == "{" and (found := _BRACES.match(self._pattern, self._at)):
            self._count(found)
        elif character == "{":
            self._pass(1)
            self._repeated = "{"  # which re2j takes for an operator, though it stands for itself
        elif character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "|":
            self._pass(1, can_repeat=False)
        elif character == "[":
            self._class()
        elif character == "\\":
            self._escape()
        else:
            self._pass(1)

    def _pass(self, length: int, *, can_repeat: bool = True) -> None:
        self._at += length
        self._can_repeat = can_repeat
        self._repeated = ""

    # ---- repetition

    def _repeat(self, operator: str) -> None:
        if not self._can_repeat:
            raise Re2SyntaxError("missing argument to repetition operator")
        if self._repeated:
            raise Re2SyntaxError("invalid nested repetition operator")
        self._at += len(operator)
        self._repeated = operator
        if self._pattern[self._at : self._at + 1] == "?":
            self._at += 1

    def _count(self, found: re.Match[str]) -> None:
        low = int(found[1])
        high = int(found[3]) if found[3] else low
        if high < low or high > MAX_REPEAT or low > MAX_REPEAT:
            raise Re2SyntaxError("invalid repeat count")
        self._repeat(found[0])

    # ---- groups

    def _open(self) -> None:
        if self._pattern.startswith("(?", self._at):
            self._perl_group()
            return
        self._depth += 1
        self._pass(1, can_repeat=False)

    def _perl_group(self) -> None:
        if named := _NAMED.match(self._pattern, self._at):
            if named[1] in self._names:
                raise Re2SyntaxError("duplicate capture group name")
            self._names.add(named[1])
            self._depth += 1
            self._pass(len(named[0]), can_repeat=False)
            return
        if self._pattern.startswith(("(?P<", "(?<"), self._at):
            raise Re2SyntaxError("invalid named capture")
        flags = _FLAGS.match(self._pattern, self._at)
        if flags is None:
            raise Re2SyntaxError("invalid or unsupported Perl syntax")
        self._depth += flags[1] == ":"
        # Flags on their own leave what could be repeated as it was.
        self._pass(len(flags[0]), can_repeat=self._can_repeat and flags[1] == ")")

    def _close(self) -> None:
        if not self._depth:
            raise Re2SyntaxError("unexpected )")
        self._depth -= 1
        self._pass(1)

    # ---- escapes

    def _escape(self) -> None:
        following = self._pattern[self._at + 1 : self._at + 2]
        if following == "Q":
            self._quote()
        elif (following in _ANCHORS and following) or (following in _CLASSES and following):
            self._pass(2)
        elif following in {"p", "P"}:
            self._pass(self._property())
        else:
            self._pass(self._escaped())

    def _quote(self) -> None:
        """Everything up to \\E stands for itself."""
        end = self._pattern.find("\\E", self._at + 2)
        quoted = self._pattern[self._at + 2 : end if end >= 0 else len(self._pattern)]
        length = len(quoted) + (4 if end >= 0 else 2)
        if quoted:
            self._pass(length)
        else:
            self._at += length

    def _property(self) -> int:
        """The length of \\pL or \\p{Greek}."""
        found = _PROPERTY.match(self._pattern, self._at)
        name = (found[1] or found[2]) if found else ""
        if found is None or (name not in CATEGORIES and name not in SCRIPTS):
            raise Re2SyntaxError("invalid character class range")
        return len(found[0])

    def _escaped(self) -> int:
        """The length of an escape that is one character."""
        following = self._pattern[self._at + 1 : self._at + 2]
        if not following:
            raise Re2SyntaxError("trailing backslash at end of expression")
        if found := _NUMBER.match(self._pattern, self._at):
            if found[1] and int(found[1], 16) > _MAX_CODE_POINT:
                raise Re2SyntaxError("invalid escape sequence")
            return len(found[0])
        if following in _LETTERS or not (following.isascii() and following.isalnum()):
            return 2
        raise Re2SyntaxError("invalid escape sequence")

    # ---- classes

    def _class(self) -> None:
        start = self._at
        self._at += 2 if self._pattern.startswith("[^", start) else 1
        is_first = True
        while is_first or not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise Re2SyntaxError("missing closing ]")
            self._class_part()
            is_first = False
        self._pass(1)

    def _class_part(self) -> None:
        if self._pattern.startswith("[:", self._at) and (found := _POSIX.match(self._pattern, self._at)):
            if found[1] not in POSIX_CLASSES:
                raise Re2SyntaxError("invalid character class range")
            self._at += len(found[0])
            return
        following = self._pattern[self._at + 1 : self._at + 2]
        if self._pattern[self._at] == "\\" and following and following in "dDsSwW":
            self._at += 2
        elif self._pattern[self._at] == "\\" and following in {"p", "P"}:
            self._at += self._property()
        else:
            self._range()

    def _range(self) -> None:
        low = self._class_character()
        if not self._pattern.startswith("-", self._at) or self._pattern.startswith("-]", self._at):
            return
        if self._at + 1 >= len(self._pattern):
            return  # the missing bracket is what is wrong
        self._at += 1
        if self._class_character() < low:
            raise Re2SyntaxError("invalid character class range")

    def _class_character(self) -> int:
        """The code point of one character, which is passed over."""
        if self._at >= len(self._pattern):
            raise Re2SyntaxError("missing closing ]")
        if self._pattern[self._at] != "\\":
            self._at += 1
            return ord(self._pattern[self._at - 1])
        length = self._escaped()
        text = self._pattern[self._at : self._at + length]
        self._at += length
        return _code_point(text)


def _code_point(escape: str) -> int:
    if escape[1] == "x":
        return int(escape[2:].strip("{}"), 16)
    if escape[1].isdigit():
        return int(escape[1:], 8)
    return {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}.get(escape[1], ord(escape[1]))
