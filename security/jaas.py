r"""JAAS: login modules with their options, from one value (sasl.jaas.config) or from the static file.

A value holds exactly one entry, and a file named entries of one or more modules each:

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

    KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required
            user_alice="secret" user_bob="hush";
        org.apache.kafka.common.security.scram.ScramLoginModule required;
    };

Both follow java.io.StreamTokenizer as Java sets it up: words of letters, digits and ``. - _ $`` (in a file `*` as
well), text in quotes with the escapes of Java (``\"``, ``\n``, ``\101``), and comments: ``/* */``, ``//``, and from
any other slash outside of quotes to the end of the line. A word that begins like a number is no word: it must be in
quotes. Stricter than Java: text in quotes ends on its line, and a file with ${...}, which Java replaces by system
properties, is rejected.

Source: org.apache.kafka.common.security.JaasConfig, JaasContext; sun.security.provider.ConfigFile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

SERVER_CONTEXT: Final = "KafkaServer"
"""The entry of the static file for all listeners; `<listener>.KafkaServer` is that of one."""

CONTROL_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
DISALLOWED_MODULES: Final = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
"""They connect to wherever the text tells them to (CVE-2023-25194, CVE-2024-31141)."""

_OPTION: Final = "-Djava.security.auth.login.config="
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FILE_WORDS: Final = "_$-*"
_VALUE_WORDS: Final = "_$-"
_END: Final = ""


class JaasError(ValueError):
    """The text is no JAAS configuration, or one that is not allowed; the message has no option's value in it."""


class JaasEntry(NamedTuple):
    """A login module, its control flag in upper case, and its options."""

    login_module: str
    control_flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:  # without the values: they may be passwords
        return f"<JaasEntry {self.login_module} {self.control_flag} {' '.join(self.options)}>"


def parse_value(text: str) -> JaasEntry:
    """The entry of a sasl.jaas.config value. Raises JaasError unless it is exactly one, and allowed."""
    tokens = _Tokens(text, _VALUE_WORDS)
    entries = []
    while not tokens.at_end:
        entries.append(_entry(tokens))
    if not entries:
        raise JaasError("it has no login module")
    if len(entries) != 1:
        raise JaasError(f"it has {len(entries)} login modules, and must have one")
    return _allowed(entries[0])


def parse_file(text: str) -> dict[str, list[JaasEntry]]:
    """The entries of a static file by context name. Raises JaasError."""
    tokens = _Tokens(text, _FILE_WORDS)
    contexts: dict[str, list[JaasEntry]] = {}
    while not tokens.at_end:
        name = tokens.take_text("the name of an entry")
        tokens.take("{")
        entries = []
        while not tokens.peeks("}"):
            entries.append(_entry(tokens))
        tokens.take("}")
        tokens.take(";")
        if name in contexts:
            raise JaasError(f"it has more than one entry {name}")
        contexts[name] = entries
    _reject_expansions(contexts)
    return contexts


def server_entries(contexts: Mapping[str, list[JaasEntry]], listener: str) -> list[JaasEntry] | None:
    """The login modules of a listener in a static file: its own context, or that of all; None where neither exists.

    Raises JaasError for modules that are not allowed.
    """
    own = contexts.get(f"{listener.lower()}.{SERVER_CONTEXT}")
    found = contexts.get(SERVER_CONTEXT) if own is None else own
    return None if found is None else [_allowed(entry) for entry in found]


def file_in_java_options(options: str) -> str | None:
    """The static file that a KAFKA_OPTS variable names by -Djava.security.auth.login.config; None without that.

    The last one counts, as on Java's command line; a shell has split the words at white space, whatever quotes they
    have.
    """
    named = [word.removeprefix(_OPTION) for word in options.split() if word.startswith(_OPTION)]
    if not named:
        return None
    path = named[-1].removeprefix("=")  # of two equals signs: in place of Java's own files
    return path.removeprefix("file://").removeprefix("file:")


def _allowed(entry: JaasEntry) -> JaasEntry:
    if entry.login_module in DISALLOWED_MODULES:
        raise JaasError(f"{entry.login_module} is not allowed")
    return entry


def _entry(tokens: _Tokens) -> JaasEntry:
    module = tokens.take_text("a login module's class")
    if not module:
        raise JaasError("a login module's class is empty")
    flag = tokens.take_text("a control flag").upper()
    if flag not in CONTROL_FLAGS:
        raise JaasError(f"{flag.lower()} is no control flag; these are {', '.join(CONTROL_FLAGS).lower()}")
    options: dict[str, str] = {}
    while not tokens.peeks(";"):
        key = tokens.take_text("an option's name, or ; after the last one")
        tokens.take("=")
        options[key] = tokens.take_text(f"the value of {key}, in quotes")
    tokens.take(";")
    return JaasEntry(module, flag, options)


def _reject_expansions(contexts: Mapping[str, list[JaasEntry]]) -> None:
    for entries in contexts.values():
        for entry in entries:
            for key, value in entry.options.items():
                if "${" in value:
                    raise JaasError(f"option {key} has ${{...}} in it: there are no system properties here")


class _Text(str):
    """A word or a text in quotes, to tell them from punctuation."""

    __slots__ = ()


class _Tokens:
    """The tokens of a text, one ahead."""

    def __init__(self, text: str, word_characters: str) -> None:
        self._tokens = _tokens(text, word_characters)
        self._next = next(self._tokens)

    @property
    def at_end(self) -> bool:
        return self._next == _END and not isinstance(self._next, _Text)

    def peeks(self, punctuation: str) -> bool:
        """Whether this comes next."""
        return self._next == punctuation and not isinstance(self._next, _Text)

    def take(self, punctuation: str) -> None:
        if not self.peeks(punctuation):
            self._reject(punctuation)
        self._advance()

    def take_text(self, wanted: str) -> str:
        found = self._next
        if not isinstance(found, _Text):
            self._reject(wanted)
        self._advance()
        return str(found)

    def _advance(self) -> None:
        self._next = next(self._tokens)

    def _reject(self, wanted: str) -> NoReturn:
        """The text itself stays out of the message: it may be a part of a password."""
        if self.at_end:
            raise JaasError(f"it ends where there must be {wanted}")
        shown = "a word" if isinstance(self._next, _Text) else self._next
        raise JaasError(f"there must be {wanted}, not {shown}")


def _tokens(text: str, word_characters: str) -> Iterator[str]:
    """Words and quoted texts as _Text, other characters as themselves, numbers as "a number", and _END at the end."""
    at = 0
    while at < len(text):
        character = text[at]
        if character <= " ":
            at += 1
        elif _begins_number(text, at):
            at = _end_of_number(text, at)
            yield "a number"
        elif _is_word(character, word_characters):
            start = at
            while at < len(text) and (_is_word(text[at], word_characters) or text[at] in "0123456789.-"):
                at += 1
            yield _Text(text[start:at])
        elif character in "\"'":
            value, at = _quoted(text, at)
            yield _Text(value) if character == '"' or "*" not in word_characters else "'"
        elif character == "/":
            at = _after_comment(text, at)
        else:
            at += 1
            yield character
    while True:
        yield _END


def _is_word(character: str, word_characters: str) -> bool:
    is_letter = "a" <= character <= "z" or "A" <= character <= "Z" or character >= "\xa0"
    return is_letter or (character in word_characters and character != "-")


def _begins_number(text: str, at: int) -> bool:
    """A digit, a dot, or a minus before one of these: what Java reads as a number, and as no text."""
    character = text[at]
    return character in "0123456789." or (
        character == "-" and at + 1 < len(text) and text[at + 1] in "0123456789."
    )


def _end_of_number(text: str, at: int) -> int:
    at += text[at] == "-"
    seen_dot = False
    while at < len(text) and text[at] in "0123456789." and not (text[at] == "." and seen_dot):
        seen_dot = seen_dot or text[at] == "."
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The text in quotes that begins at `at`, and where it has ended."""
    quote = text[at]
    at += 1
    parts: list[str] = []
    while at < len(text) and text[at] not in (quote, "\n", "\r"):
        if text[at] == "\\" and at + 1 < len(text):
            part, at = _escaped(text, at + 1)
            parts.append(part)
        else:
            parts.append(text[at])
            at += 1
    if at >= len(text) or text[at] != quote:
        raise JaasError("a text in quotes does not end on its line")
    return "".join(parts), at + 1


def _escaped(text: str, at: int) -> tuple[str, int]:
    """What follows a backslash: one of _ESCAPES, an octal number up to 377, or the character itself."""
    character = text[at]
    if character not in "01234567":
        return _ESCAPES.get(character, character), at + 1
    most = 3 if character <= "3" else 2
    end = at
    while end < len(text) and end - at < most and text[end] in "01234567":
        end += 1
    return chr(int(text[at:end], 8)), end


def _after_comment(text: str, at: int) -> int:
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    while at < len(text) and text[at] not in "\n\r":
        at += 1
    return at
