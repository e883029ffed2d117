from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.strict_json import JsonError, parse_object

LONGS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | LONGS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_objects_are_read(found: dict[str, Any]) -> None:
    text = json.dumps(found)
    assert parse_object(text) == found
    assert parse_object(text.encode()) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it is no JSON"),
        (b"[1]", "it is no JSON object"),
        (b"null", "it is no JSON object"),
        (b'{"a":1} x', "it is no JSON"),
        (b'{"a":1,"a":1}', "a name occurs twice in it"),
        (b'{"a":{"b":1,"c":2,"b":3}}', "a name occurs twice in it"),
        (b'{"a":NaN}', "it has NaN in it, which is no JSON"),
        (b'{"a":-Infinity}', "it has -Infinity in it, which is no JSON"),
        (b'{"a":9223372036854775808}', "it has a number that does not fit into 64 bits"),
        (b'{"a":-9223372036854775809}', "it has a number that does not fit into 64 bits"),
        (b'{"a":' + b"1" * 10_000 + b"}", "it has a number that does not fit into 64 bits"),
        (b'{"a":"\xff"}', "it is no UTF-8"),
        (b'{"a":' * 200_000, "it is nested too deeply"),
    ],
)
def test_what_is_ambiguous_or_no_json_is_rejected(text: bytes, reason: str) -> None:
    with pytest.raises(JsonError) as caught:
        parse_object(text)
    assert str(caught.value) == reason


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_an_error(text: bytes) -> None:
    with suppress(JsonError):
        assert isinstance(parse_object(text), dict)
