from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.errors import SettingError
from barnabas.security.jaas import parse_jaas


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('a.b.M required username="u" password="p";', {"username": "u", "password": "p"}),
        ("M REQUIRED\n\tusername=u\n\tpassword='p q' ;", {"username": "u", "password": "p q"}),
        ('M optional a = "x=1;\\"2\\\\" b=c;', {"a": 'x=1;"2\\', "b": "c"}),
        ('/* one */ M sufficient // two\n a="\\n\\t\\101\\z";', {"a": "\n\tAz"}),
        ("M requisite;", {}),
    ],
)
def test_options(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(text)
    assert (entry.module, entry.options) == ("M", options)


def test_an_entry_shows_the_names_of_its_options_only() -> None:
    assert repr(parse_jaas('M required b="secret" a="x";')) == "<JaasEntry M with a, b>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("M required", "does not end with ;"),
        ("M needed;", "followed by one of required"),
        ("; = ;", "followed by one of required"),
        ('M required a="1" b;', "an option is no name=value"),
        ('M required a "1" b;', "an option is no name=value"),
        ('M required a="1"; N required b="2";', "more than one module"),
        ('M required a="1" a="2";', "a is given twice"),
        ('M required a="1;', "a quote that is not closed"),
    ],
)
def test_what_is_wrong_is_said_without_the_value(text: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        parse_jaas(text, "listener.name.x.plain.sasl.jaas.config")
    assert caught.value.key == "listener.name.x.plain.sasl.jaas.config"
    assert caught.value.value is None


@given(st.text(alphabet="ab=;\"' \\\n/*1"))
def test_any_text_is_an_entry_or_raises_setting_error(text: str) -> None:
    with contextlib.suppress(SettingError):
        parse_jaas(f"M required {text};")
