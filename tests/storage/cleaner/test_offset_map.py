"""OffsetMap: every key's last offset in bounded memory, for hostile keys too; the same interpreted and compiled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.records.key_table import ENTRY_BYTES
from barnabas.storage.cleaner.offset_map import OffsetMap
from barnabas.storage.errors import OffsetMapTooSmallError
from tests.storage.cleaning import forms_of_the_loops, running
from tests.support.loops import FORMS

SECRET = bytes(range(16))


@pytest.mark.parametrize("form", FORMS)
@given(puts=st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 1 << 62)), max_size=60))
def test_the_last_offset_of_every_key(form: str, puts: list[tuple[bytes, int]]) -> None:
    with running(form):
        offset_map = OffsetMap(ENTRY_BYTES * 64, 1.0, SECRET)
        for key, offset in puts:
            offset_map.put(key, offset)
        known = dict(puts)
        assert {key: offset_map.get(key) for key in known} == known
        assert len(offset_map) == len(known)
        assert offset_map.get(b"an absent key") == -1
        assert offset_map.latest_offset == (puts[-1][1] if puts else -1)
        assert offset_map.utilization == len(known) / 64


@pytest.mark.parametrize("form", FORMS)
def test_a_full_map_rejects_new_keys_and_finds_all(form: str) -> None:
    with running(form):
        offset_map = OffsetMap(ENTRY_BYTES * 8, 1.0, SECRET)
        assert offset_map.max_entries == 7  # one slot stays empty, where searches end
        for number in range(7):
            offset_map.put(b"%d" % number, number)
        with pytest.raises(ValueError, match="full"):
            offset_map.put(b"one more", 8)
        offset_map.put(b"3", 9)
        assert [offset_map.get(b"%d" % number) for number in range(8)] == [0, 1, 2, 9, 4, 5, 6, -1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("slots", [3, 4, 5, 31, 64, 65, 1000])
def test_the_map_grows_with_its_entries_and_loses_none(
    form: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, _ = forms_of_the_loops(form)
    monkeypatch.setattr(tables, "FIRST_SLOTS", 4)
    table = tables.KeyTable(ENTRY_BYTES * slots, SECRET)
    known = {}
    for number in range(slots - 1):
        known[b"%d" % number] = number
        table.put(b"%d" % number, number)
        table.put(b"%d" % (number // 2), known.setdefault(b"%d" % (number // 2), 0))
        if number < 70 or number == slots - 2:
            assert {key: table.get(key) for key in known} == known
            assert table.get(b"absent") == -1
    assert (table.size, table.slots) == (slots - 1, slots)
    with pytest.raises(ValueError, match=f"full: {slots - 1} of {slots}"):
        table.put(b"absent", 1)


@pytest.mark.parametrize("form", FORMS)
def test_growth_takes_at_most_an_eighth_more_memory(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes requested from the system, in order; each but the last is released by then."""
    tables, _ = forms_of_the_loops(form)
    taken: list[int] = []
    take = tables._zeros

    def noted(size: int) -> object:
        taken.append(size // ENTRY_BYTES)
        return take(size)

    monkeypatch.setattr(tables, "FIRST_SLOTS", 16)
    monkeypatch.setattr(tables, "_zeros", noted)
    table = tables.KeyTable(ENTRY_BYTES * 1000, SECRET)
    for number in range(999):
        table.put(b"%d" % number, number)
    assert taken == [16, 32, 64, 1000]


@pytest.mark.parametrize("form", FORMS)
def test_other_secrets_make_other_hashes(form: str) -> None:
    tables, _ = forms_of_the_loops(form)
    first = tables.KeyTable(1000, SECRET).hash_of(b"key")
    assert first == tables.KeyTable(1000, SECRET).hash_of(b"key")
    assert first != tables.KeyTable(1000, bytes(16)).hash_of(b"key")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("length", "expected"),
    [  # from the reference implementation's vectors for 128 bits; key and input count up from 0
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_siphash(form: str, length: int, expected: str) -> None:
    tables, _ = forms_of_the_loops(form)
    halves = tables.KeyTable(1000, SECRET).hash_of(bytes(range(length)))
    assert b"".join(half.to_bytes(8, "little") for half in halves).hex() == expected


@given(key=st.binary(max_size=200))
def test_siphash_is_the_same_interpreted_and_compiled(key: bytes) -> None:
    hashes = {forms_of_the_loops(form)[0].KeyTable(1000, SECRET).hash_of(key) for form in FORMS}
    assert len(hashes) == 1


@pytest.mark.parametrize(("memory", "load_factor"), [(ENTRY_BYTES, 0.9), (ENTRY_BYTES * 10, 0.1), (0, 0.9)])
def test_a_map_without_room_for_one_key(memory: int, load_factor: float) -> None:
    with pytest.raises(OffsetMapTooSmallError):
        OffsetMap(memory, load_factor, SECRET)


def test_max_entries_follow_the_load_factor() -> None:
    assert OffsetMap(ENTRY_BYTES * 100, 0.9, SECRET).max_entries == 90
    assert OffsetMap(ENTRY_BYTES * 2, 0.9, SECRET).max_entries == 1


def test_interpreted_and_compiled_maps_count_alike() -> None:
    forms: list[Any] = [forms_of_the_loops(form)[0] for form in FORMS]
    assert {tables.KeyTable(ENTRY_BYTES * 10 + 5, SECRET).slots for tables in forms} == {10}
