r"""Reads the value of sasl.jaas.config: one login module with its options, in Java's syntax.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Values stand in quotes, in which a backslash escapes; comments are skipped. Source: JaasConfig, java.io.StreamTokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.security.errors import SettingError

KEY: Final = "sasl.jaas.config"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<quoted>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<sign>[=;])|(?P<word>[^\s=;"']+)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasEntry(NamedTuple):
    """A login module: the last part of its class name, and its options. Never shown: options are passwords."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<JaasEntry {self.module} with {', '.join(sorted(self.options))}>"


def parse_jaas(text: str, key: str = KEY) -> JaasEntry:
    """The one entry of the value. Raises SettingError, without the value."""

    def wrong(why: str) -> SettingError:
        return SettingError(
            key, None, f'must be one login module, as LoginModule required name="value" ...; : {why}'
        )

    tokens = list(_tokens(text, key))
    if len(tokens) < 3 or tokens[-1] != ("sign", ";"):
        raise wrong("it does not end with ;" if tokens else "it is empty")
    (kind, module), (flag_kind, flag), *rest = tokens[:-1]
    if kind == "sign" or flag_kind == "sign" or flag.lower() not in FLAGS:
        raise wrong(f"the module's name is followed by one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise wrong("an option is no name=value")
    for (name_kind, name), equals, (value_kind, value) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if name_kind == "sign" or equals != ("sign", "=") or value_kind == "sign":
            raise wrong("an option is no name=value, or there is more than one module")
        if name in options:
            raise wrong(f"the option {name} is given twice")
        options[name] = value
    return JaasEntry(module.rpartition(".")[2], options)


def _tokens(text: str, key: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise SettingError(key, None, "has a quote that is not closed")
        at = found.end()
        if found.lastgroup == "quoted":
            yield "quoted", _ESCAPE.sub(_unescaped, found[0][1:-1])
        elif found.lastgroup is not None:
            yield found.lastgroup, found[0]


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _CONTROLS.get(code, code)
