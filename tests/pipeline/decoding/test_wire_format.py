"""The bytes in front of a payload."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.decoding.errors import MalformedValueError
from barnabas.pipeline.decoding.wire_format import join, split, split_indexes
from tests.pipeline.decoding.framing import join_indexes


@given(schema_id=st.integers(0, 2**31 - 1), payload=st.binary())
def test_split_inverts_join(schema_id: int, payload: bytes) -> None:
    assert split(join(schema_id, payload)) == (schema_id, payload)


@given(indexes=st.lists(st.integers(0, 2**30), min_size=1, max_size=32), payload=st.binary())
def test_split_indexes_inverts_join_indexes(indexes: list[int], payload: bytes) -> None:
    assert split_indexes(join_indexes(indexes, payload)) == (indexes, payload)


def test_worked_examples() -> None:
    assert split(bytes.fromhex("000000002a") + b"x") == (42, b"x")
    assert split_indexes(bytes.fromhex("00") + b"x") == ([0], b"x")
    assert split_indexes(bytes.fromhex("040200") + b"x") == ([1, 0], b"x")


@pytest.mark.parametrize("value", ["", "04", "0402", "ff", "ffffffffff0f", "01", "80808010"])
def test_invalid_indexes(value: str) -> None:
    with pytest.raises(MalformedValueError):
        split_indexes(bytes.fromhex(value))


def test_no_registry_has_an_id_below_0() -> None:
    with pytest.raises(MalformedValueError, match="the schema's id is -1"):
        split(bytes.fromhex("00ffffffff"))
