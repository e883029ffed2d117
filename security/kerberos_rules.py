r"""sasl.kerberos.principal.to.local.rules: from a Kerberos principal to the name of a user.

    DEFAULT                          the first component, for principals of the default realm
    RULE:[n:format](match)s/from/to/gL
                                     for principals of n components: the format with $0 (the realm), $1 and $2; where
                                     all of it matches `match`, the first of `from` in it (g: each) becomes `to`;
                                     L: in lower case, U: in upper case. All but [n:format] may be left out

The first rule that yields a name holds; where none does, the client is not let in. A name without a realm is a user's
as it is. Rules at which Kafka would fail with every client to which they apply are refused at the start, and so are
regular expressions of Java that mean something else in Python.

Source: org.apache.kafka.common.security.kerberos.KerberosShortNamer, KerberosRule, KerberosName.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.security.errors import SettingError
from barnabas.security.java_regex import JavaRegexError, translate
from barnabas.security.mapping_rules import NoRuleMatchesError, replacement_parts

KEY: Final = "sasl.kerberos.principal.to.local.rules"
_RULE: Final = re.compile(
    r"((DEFAULT)|((RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?)))", re.ASCII
)
_NAME: Final = re.compile(r"([^/@]*)(/([^/@]*))?@([^/@]*)")
_PARAMETER: Final = re.compile(r"([^$]*)(\$(\d*))?", re.ASCII)
_NOT_SIMPLE: Final = re.compile(r"[/@]")
_MAX_INT: Final = 2**31 - 1
_INT_DIGITS: Final = 10


class KerberosName(NamedTuple):
    """A principal: service/host@REALM; host and realm are None where it has none."""

    service: str
    host: str | None
    realm: str | None

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" + ("" if self.realm is None else f"@{self.realm}")


def parse_name(text: str) -> KerberosName:
    """Raises NoRuleMatchesError for what is no name of at most two components and a realm."""
    found = _NAME.fullmatch(text)
    if found is not None:
        return KerberosName(found[1], found[3], found[4])
    if "@" in text:
        raise NoRuleMatchesError(f"{text} is no principal of at most two components and a realm")
    return KerberosName(text, None, None)


class _Substitution(NamedTuple):
    pattern: re.Pattern[str]
    replacement: tuple[str | int, ...]
    """Texts, and numbers of groups."""
    most: int
    """How many are replaced; 0: all."""

    def apply(self, text: str) -> str:
        return self.pattern.sub(self._replaced, text, count=self.most)

    def _replaced(self, found: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self.replacement)


class _Rule(NamedTuple):
    components: int
    format: tuple[str | int, ...]
    """Texts, and numbers of components, 0 being the realm."""
    match: re.Pattern[str] | None
    substitution: _Substitution | None
    case: str | None

    def apply(self, components: Sequence[str]) -> str | None:
        if len(components) - 1 != self.components:
            return None
        base = "".join(part if isinstance(part, str) else components[part] for part in self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        name = base if self.substitution is None else self.substitution.apply(base)
        if _NOT_SIMPLE.search(name):
            raise NoRuleMatchesError(f"a rule makes {name} of it, which has / or @ in it")
        if self.case is None:
            return name
        return name.lower() if self.case == "L" else name.upper()


class KerberosShortNamer:
    """The rules, in their order; None stands for DEFAULT."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Raises SettingError for rules that are not valid, or cannot be followed here."""
        self._texts = rules
        self._default_realm = default_realm
        self._rules = [self._parsed(text) for text in rules]

    def name_of(self, principal: str) -> str:
        """The name of the user. Raises NoRuleMatchesError."""
        name = parse_name(principal)
        if name.realm is None and name.host is None:
            return name.service
        realm = name.realm or ""
        components = [realm, name.service, *([] if name.host is None else [name.host])]
        for rule in self._rules:
            found = self._default(components) if rule is None else rule.apply(components)
            if found is not None:
                return found
        raise NoRuleMatchesError(f"no rule of {KEY} matches {principal}")

    def _default(self, components: Sequence[str]) -> str | None:
        if components[0] != self._default_realm:
            return None
        return components[1]

    # ---- parsing

    def _parsed(self, text: str) -> _Rule | None:
        found = _RULE.match(text)
        if found is None or found.end() != len(text):
            raise self._error(f"{text} is no rule" + (f" from {text[found.end() :]!r} on" if found else ""))
        if found[2] is not None:
            return None
        try:
            components = _number(found[5])
            return _Rule(
                components,
                _format_parts(found[6], components),
                None if found[8] is None else _compiled(found[8]),
                None if found[10] is None else _substitution(found[10], found[11], repeat=found[12] == "g"),
                found[13],
            )
        except JavaRegexError as error:
            raise self._error(f"{text} cannot be followed: {error}") from None

    def _error(self, why: str) -> SettingError:
        form = "DEFAULT and RULE:[n:format](match)s/from/to/g, comma-separated"
        return SettingError(KEY, ",".join(self._texts), f"must be of {form}: {why}")


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.ASCII)


def _substitution(pattern: str, replacement: str, *, repeat: bool) -> _Substitution:
    compiled = _compiled(pattern)
    return _Substitution(compiled, replacement_parts(replacement, compiled), 0 if repeat else 1)


def _number(digits: str, most: int = _MAX_INT) -> int:
    significant = digits.lstrip("0") or digits[:1]
    if not significant or len(significant) > _INT_DIGITS or int(significant) > most:
        raise JavaRegexError(f"{digits[:20] or 'nothing'} is no number up to {most}")
    return int(significant)


def _format_parts(text: str, components: int) -> tuple[str | int, ...]:
    """Raises JavaRegexError for a reference to a component that principals of so many do not have."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PARAMETER.match(text, at)
        assert found is not None  # it matches anything
        parts.append(found[1])
        if found[3] is not None:
            parts.append(_number(found[3], components))
        at = found.end()
    return tuple(parts)
