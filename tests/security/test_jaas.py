"""JAAS configuration: values of one entry, and the static file."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.jaas import (
    DISALLOWED_MODULES,
    JaasEntry,
    JaasError,
    file_in_java_options,
    parse_file,
    parse_value,
    server_entries,
)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return dict(parse_value(f"M required {text};").options)


def test_a_value_is_one_entry() -> None:
    entry = parse_value(f"{PLAIN} required user_alice=\"pencil\" user_bob='hush';")
    assert entry == JaasEntry(PLAIN, "REQUIRED", {"user_alice": "pencil", "user_bob": "hush"})


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_control_flags(flag: str) -> None:
    assert parse_value(f"M {flag};").control_flag == flag.upper()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=word", "word"),
        ("a=a.b-c_d$1", "a.b-c_d$1"),
        ('a="=;, {}"', "=;, {}"),
        ('a=""', ""),
        (r'a="say \"hi\" \\ \q"', 'say "hi" \\ q'),
        (r'a="\t\n\r\a\b\f\v"', "\t\n\r\a\b\f\v"),
        (r'a="\101\7\3777\48"', "A\x07\xff7\x048"),
        ('a="ein Paßwort, ✓"', "ein Paßwort, ✓"),
        ("a=ä✓", "ä✓"),
        ("\n\ta\n=\n/* no */ x // no", "x"),
        ("a=x / a comment as well\n", "x"),
        ('"a"="x"', "x"),
        ("a=first a=x", "x"),
    ],
)
def test_options(text: str, value: str) -> None:
    assert options(f"{text}\n") == {"a": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no login module"),
        ("/* nothing", "no login module"),
        ("M required; N required;", "2 login modules"),
        ("M", "ends where there must be a control flag"),
        ('"" required;', "class is empty"),
        ("M maybe;", "maybe is no control flag"),
        ("M required", "ends where there must be an option's name"),
        ("M required a", "ends where there must be ="),
        ("M required a=", "ends where there must be the value of a"),
        ("M required a=1;", "the value of a, in quotes, not a number"),
        ("M required a=-1;", "not a number"),
        ("M required a=.5.5;", "not a number"),
        ("M required a=-x;", "not -"),
        ("M required a b;", "there must be =, not a word"),
        ("M required a=/etc/x;", "ends where there must be the value of a"),
        ('M required a="x;\n', "does not end on its line"),
        ('M required a="x\\', "does not end on its line"),
        ("M required = x;", "an option's name, or ; after the last one, not ="),
        ("; required", "must be a login module's class, not ;"),
        (f"{DISALLOWED_MODULES[0]} required;", "JndiLoginModule is not allowed"),
        (f"{DISALLOWED_MODULES[1]} required;", "LdapLoginModule is not allowed"),
    ],
)
def test_wrong_values(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=message.replace("(", r"\(")):
        parse_value(text)


@given(st.text())
def test_any_text_is_an_entry_or_a_jaas_error(text: str) -> None:
    with suppress(JaasError):
        assert parse_value(text).login_module is not None


@given(st.text(alphabet="ab=;\"{}\\/*\n '1-.", max_size=60))
def test_any_text_of_its_characters_is_a_file_or_a_jaas_error(text: str) -> None:
    for wrapped in (text, f"K {{ M required {text} }};"):
        with suppress(JaasError):
            parse_file(wrapped)


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_.]*", fullmatch=True), st.text(), max_size=5))
def test_whatever_is_quoted_is_read_as_it_was(wanted: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = "".join(f"\\{ord(c):03o}" if c in '"\\\n\r' else c for c in value)
        return f'"{escaped}"'

    assert options(" ".join(f"{key}={quoted(value)}" for key, value in wanted.items())) == wanted


FILE = f"""\
// the logins of all listeners
KafkaServer {{
    {PLAIN} required
        user_alice="pencil";
    Scram sufficient;
}};
/* and of one */
sasl_plaintext.KafkaServer {{ Other required a*="x"; }};
Empty {{ }};
"""


def test_a_file_has_entries_by_name() -> None:
    contexts = parse_file(FILE)
    assert contexts == {
        "KafkaServer": [
            JaasEntry(PLAIN, "REQUIRED", {"user_alice": "pencil"}),
            JaasEntry("Scram", "SUFFICIENT", {}),
        ],
        "sasl_plaintext.KafkaServer": [JaasEntry("Other", "REQUIRED", {"a*": "x"})],
        "Empty": [],
    }
    assert server_entries(contexts, "SASL_PLAINTEXT") == contexts["sasl_plaintext.KafkaServer"]
    assert server_entries(contexts, "OTHER") == contexts["KafkaServer"]
    assert server_entries({"KafkaClient": []}, "OTHER") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("K", "there must be {"),
        ("K {", "a login module's class"),
        ("K { M required; }", "there must be ;"),
        ("K { M required; }; K { M required; };", "more than one entry K"),
        ("K { M required a='x'; };", "the value of a, in quotes, not '"),
        ('K { M required a="${user.home}/x"; };', r"option a has ${...} in it"),
        ("{ };", "the name of an entry, not {"),
    ],
)
def test_wrong_files(text: str, message: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_file(text)
    assert message in str(caught.value)


def test_modules_of_a_file_that_are_not_allowed() -> None:
    contexts = parse_file(f"KafkaServer {{ {DISALLOWED_MODULES[0]} required; }};")
    with pytest.raises(JaasError, match="not allowed"):
        server_entries(contexts, "ANY")


def test_no_error_and_no_representation_shows_a_password() -> None:
    assert "pencil" not in repr(parse_value('M required user_alice="pencil";'))
    for text in ('M required user_alice="pencil" "pencil";', "M required pencil pencil;", 'M pencil="pencil'):
        with pytest.raises(JaasError) as caught:
            parse_value(text)
        assert "pencil" not in str(caught.value).replace("pencil is no control flag", "")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", None),
        ("-Xmx1g -Djava.security.krb5.conf=/k", None),
        ("-Xmx1g  -Djava.security.auth.login.config=/etc/jaas.conf -Dx=y", "/etc/jaas.conf"),
        ("-Djava.security.auth.login.config=/a -Djava.security.auth.login.config==/b", "/b"),
        ("-Djava.security.auth.login.config=file:/a", "/a"),
        ("-Djava.security.auth.login.config=file:///a", "/a"),
    ],
)
def test_the_file_that_java_options_name(text: str, path: str | None) -> None:
    assert file_in_java_options(text) == path
