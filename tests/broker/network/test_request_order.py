"""Only the pairs of requests in the table overlap, in either direction."""

from __future__ import annotations

import pytest

from barnabas.broker.network.request_order import may_overlap, overlapping_api
from barnabas.protocol.api_keys import ApiKey

OVERLAPPING = {(ApiKey.PRODUCE, ApiKey.PRODUCE), (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_COMMIT)}


def begins(key: ApiKey) -> bytes:
    return key.to_bytes(2, "big") + b"\x00\x04the rest of a request"


def test_only_the_pairs_of_the_table_overlap() -> None:
    found = {
        (waiting, following)
        for waiting in ApiKey
        for following in ApiKey
        if may_overlap(begins(following), overlapping_api(begins(waiting)))
    }
    assert found == OVERLAPPING


@pytest.mark.parametrize("frame", [b"", b"\x00", memoryview(b"\x00")])
def test_a_request_without_an_api_key_overlaps_with_nothing(frame: bytes | memoryview) -> None:
    assert overlapping_api(frame) is None
    assert not may_overlap(frame, overlapping_api(begins(ApiKey.PRODUCE)))


def test_requests_are_inspected_without_a_copy() -> None:
    frame = memoryview(begins(ApiKey.PRODUCE))
    assert overlapping_api(frame) == b"\x00\x00"
    assert may_overlap(frame, overlapping_api(frame))
