"""ssl.principal.mapping.rules: from the name in a certificate to the name of a user (KIP-371).

    DEFAULT                       the name as it is
    RULE:pattern/replacement/     where the pattern, a regular expression of Java, matches the whole name
    RULE:pattern/replacement/L    the same in lower case; U: in upper case

The first rule that matches holds; where none does, the client is not let in. A reference to a group that the pattern
does not have stays as it is, as far as Kafka makes that so: what it would fail at with every client, and a pattern that
means something else in Python, is refused at the start.
Source: org.apache.kafka.common.security.ssl.SslPrincipalMapper.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from barnabas.security.errors import SettingError
from barnabas.security.java_regex import JavaRegexError, translate

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"[ \t\n\x0b\f\r]*({_RULE})[ \t\n\x0b\f\r]*(,[ \t\n\x0b\f\r]*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


class NoRuleMatchesError(ValueError):
    """No rule matches the name of a certificate."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: tuple[str | int, ...]
    """Texts, and numbers of groups."""
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._replaced, name)
        if self.case == "L":
            return result.lower()
        return result.upper() if self.case == "U" else result

    def _replaced(self, found: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self.replacement)


class PrincipalMapper:
    """The rules, in their order; None stands for DEFAULT."""

    def __init__(self, text: str) -> None:
        """Raises SettingError for rules that are not valid, or cannot be followed here."""
        self._text = text
        self._rules: list[_Rule | None] = []
        for entry in _entries(text):
            found = _PARSER.match(entry)
            assert found is not None  # the last branch matches anything
            if found.end() != len(entry):
                raise self._error(f"{entry} is no rule from {entry[found.end() :]!r} on")
            if found[1] is not None:
                self._rules.append(None)
            elif found[2] is not None:
                self._rules.append(self._rule(found[2], found[3], found[4]))

    def name_of(self, distinguished_name: str) -> str:
        """The name of the user. Raises NoRuleMatchesError."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRuleMatchesError(f"no rule of {KEY} matches {distinguished_name}")

    def _rule(self, pattern: str, replacement: str, case: str) -> _Rule:
        try:
            compiled = re.compile(translate(pattern), re.ASCII)
            parts = replacement_parts(_with_literal_references(replacement, compiled.groups), compiled)
        except JavaRegexError as error:
            raise self._error(str(error)) from None
        return _Rule(compiled, parts, case)

    def _error(self, why: str) -> SettingError:
        return SettingError(
            KEY, self._text, f"must be of DEFAULT and RULE:pattern/replacement/[LU], comma-separated: {why}"
        )

    def __repr__(self) -> str:
        return f"<PrincipalMapper {self._text}>"


def _entries(text: str) -> list[str]:
    return [found[1] for found in _SPLITTER.finditer(text.strip())]


def _with_literal_references(replacement: str, groups: int) -> str:
    """The replacement with a backslash before references to groups that the pattern does not have.

    As in Kafka, a second one gets its backslash a place too early, and a pattern without groups none.
    """
    if not groups:
        return replacement
    value = replacement
    for found in _REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        number = int(found[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            at = found.start()
            value = f"{value[:at]}\\{value[at:]}"
    return value


def replacement_parts(replacement: str, pattern: re.Pattern[str]) -> tuple[str | int, ...]:
    """The texts and group numbers of a replacement of Java's Matcher.replaceAll.

    Raises JavaRegexError for one at which it would fail.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        if character == "\\":
            if at + 1 == len(replacement):
                raise JavaRegexError("the replacement ends with a backslash")
            parts.append(replacement[at + 1])
            at += 2
        elif character == "$":
            group, at = _group(replacement, at + 1, pattern)
            parts.append(group)
        else:
            parts.append(character)
            at += 1
    return tuple(parts)


def _group(replacement: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """The group that is referred to behind a $, and where the reference ends."""
    rest = replacement[at:]
    if rest.startswith("{"):
        name = _NAME.match(rest, 1)
        if name is None or rest[name.end() : name.end() + 1] != "}" or name[0] not in pattern.groupindex:
            raise JavaRegexError(f"${rest} in the replacement names no group")
        return pattern.groupindex[name[0]], at + name.end() + 1
    if not rest or rest[0] not in "0123456789":
        raise JavaRegexError(f"${rest} in the replacement names no group")
    number, end = int(rest[0]), at + 1
    if number > pattern.groups:
        raise JavaRegexError(f"${number} in the replacement names no group")
    while end < len(replacement) and replacement[end] in "0123456789":
        longer = 10 * number + int(replacement[end])
        if longer > pattern.groups:
            break
        number, end = longer, end + 1
    return number, end
