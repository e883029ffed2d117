"""Tests that the comparison of digests can fail."""

from __future__ import annotations

import pytest

from tests.interop.workload import BIG_VALUE_BYTES, Digest, Digests, Workload, assert_same, expected


def test_a_workload_has_records_of_every_kind() -> None:
    records = list(Workload(5000, 7).records())
    assert {record.partition for record in records} == set(range(7))
    assert {None, b""} < {record.key for record in records}
    assert {None, b""} < {record.value for record in records}
    assert any(record.key is None and record.value is None for record in records)
    assert any(content is None for record in records for _, content in record.headers)
    assert [len(record.value or b"") for record in records].count(BIG_VALUE_BYTES) == 2


def test_a_workload_leaves_out_what_a_client_cannot_send() -> None:
    records = list(Workload(5000, null_headers=False, bare=False).records())
    assert not any(record.key is None and record.value is None for record in records)
    assert not any(content is None for record in records for _, content in record.headers)


def test_equal_records_have_equal_digests() -> None:
    workload = Workload(3000, 3)
    assert_same(expected(workload), expected(workload))


@pytest.mark.parametrize("change", ["lost", "doubled", "swapped", "null", "timestamp"])
def test_any_difference_is_found_to_within_a_thousand_records(change: str) -> None:
    records = list(Workload(5000).records())
    before, after = Digest(), Digest()
    for record in records:
        before.add(record.key, record.value, record.headers, record.timestamp_ms)
    if change == "lost":
        del records[2500]
    elif change == "doubled":
        records.insert(2500, records[2500])
    elif change == "swapped":
        records[2500], records[2501] = records[2501], records[2500]
    elif change == "null":
        at = next(number for number, record in enumerate(records) if number > 2500 and record.value == b"")
        records[at] = records[at]._replace(value=None)
    else:
        records[2500] = records[2500]._replace(timestamp_ms=0)
    for record in records:
        after.add(record.key, record.value, record.headers, record.timestamp_ms)
    assert before != after
    assert "the first 2000 records are equal" in before.difference(after)


def test_a_difference_names_its_partition() -> None:
    one, other = Digests(3), Digests(3)
    other.of[2].add(b"key", b"value", (), 0)
    with pytest.raises(AssertionError, match="partition 2"):
        assert_same(one, other)
