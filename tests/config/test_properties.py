"""The reader of server.properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.properties import PropertiesError, Property, decode, read_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in read_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("  a\t=\t b ", [("a", "b ")]),
        ("a==b", [("a", "=b")]),
        ("a = : b", [("a", ": b")]),
        ("a", [("a", "")]),
        ("=b", [("", "b")]),
        ("# a=b\n! c=d\n\n \t\n", []),
        ("a=# no comment", [("a", "# no comment")]),
        (r"a\ b\=c\:d=e", [("a b=c:d", "e")]),
        (r"a=\t\n\r\f\z\\", [("a", "\t\n\r\fz\\")]),
        (r"a=\u00e9\u0041", [("a", "éA")]),
        (r"a=\ud83d\ude00", [("a", "😀")]),
        ("a=1\rb=2\r\nc=3\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("log.dirs = /a,\\\n   /b,\\\r\n\t/c", [("log.dirs", "/a,/b,/c")]),
        ("a\\\nb=c", [("ab", "c")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\\\\\nc=d", [("a", "b\\c=d")]),
        ("# comment \\\na=b", [("a", "b")]),
        ("a=b\\\n# c", [("a", "b# c")]),
        ("a=b\\\n\nc=d", [("a", "b"), ("c", "d")]),
        ("a=b\\", [("a", "b")]),
        ("\\\n# comment\na=b", [("a", "b")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("", []),
    ],
)
def test_parsed_files(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_a_property_knows_the_line_it_starts_on() -> None:
    read = read_properties("# one\na=b\\\n c\n\nd=e\n")
    assert read == [Property("a", "bc", 2), Property("d", "e", 5)]
    assert repr(read[1]) == "Property(key='d', value='e', line=5)"


@pytest.mark.parametrize("escape", ["\\u12", "\\u12g4", "\\u", "\\u-123", "\\u 123", "\\u00٣0"])
def test_a_bad_escape_names_its_line(escape: str) -> None:
    with pytest.raises(PropertiesError) as caught:
        read_properties("a=b\nc=" + escape)
    assert caught.value.line == 2
    assert "four hexadecimal digits" in caught.value.message


def test_utf_8_is_read_as_such_and_the_rest_as_java_does() -> None:
    assert decode("é=1".encode()) == "é=1"
    assert decode(b"\xe9=1") == "é=1"
    assert decode(b"\xef\xbb\xbfa=1") == "a=1"


@given(st.text(alphabet=st.sampled_from("ab=: \t\f\n\r\\#!u0041,é")))
def test_any_text_is_properties_or_a_properties_error(text: str) -> None:
    try:
        for one in read_properties(text):
            assert 1 <= one.line <= text.count("\n") + text.count("\r") + 1
    except PropertiesError:
        pass


@given(st.binary())
def test_any_bytes_have_a_text(data: bytes) -> None:
    decode(data)


PLAIN = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@given(PLAIN, PLAIN)
def test_escaped_text_is_restored(key: str, value: str) -> None:
    def escaped(text: str) -> str:
        return "".join("\\" + character if character in "\\=:# !\t\f" else character for character in text)

    assert pairs(f"{escaped(key)}={escaped(value)}") == [(key, value)]
