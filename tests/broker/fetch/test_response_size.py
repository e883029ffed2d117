"""ResponseSize: what it computes is the length of the encoded response."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.fetch.response_size import response_size
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.wire import Chunk

VERSIONS = range(4, 19)
FLEXIBLE = range(12, 19)
Data = FetchResponse.PartitionData


class Slice:
    """Records in a file."""

    def __init__(self, size: int) -> None:
        self.size = size

    def read(self) -> bytes:
        return bytes(self.size)


lengths = st.one_of(st.integers(0, 300), st.sampled_from([16_382, 16_383, 16_384]))
records: st.SearchStrategy[Chunk | None] = st.one_of(
    st.none(), lengths.map(bytes), lengths.map(lambda size: memoryview(bytes(size))), lengths.map(Slice)
)
aborted = st.one_of(
    st.none(), st.integers(0, 130).map(lambda count: [FetchResponse.AbortedTransaction()] * count)
)
plain = st.builds(
    lambda offset, aborted, records: Data(
        partition_index=1, high_watermark=offset, aborted_transactions=aborted, records=records
    ),
    st.integers(-1, 2**62),
    aborted,
    records,
)
tagged = st.builds(
    lambda data, which, value: Data(
        **{
            "records": data.records,
            which: {
                "diverging_epoch": FetchResponse.EpochEndOffset(epoch=value, end_offset=value),
                "current_leader": FetchResponse.LeaderIdAndEpoch(leader_id=value, leader_epoch=value),
                "snapshot_id": FetchResponse.SnapshotId(end_offset=value, epoch=value),
            }[which],
        }
    ),
    plain,
    st.sampled_from(["diverging_epoch", "current_leader", "snapshot_id"]),
    st.integers(-1, 1),
)
"""With -1 the value is the default, which is not written."""


def topics(
    partitions: st.SearchStrategy[Data],
) -> st.SearchStrategy[list[FetchResponse.FetchableTopicResponse]]:
    topic = st.builds(
        lambda name, partitions: FetchResponse.FetchableTopicResponse(topic=name, partitions=partitions),
        st.one_of(st.text(max_size=5), st.integers(120, 130).map("ä".__mul__)),
        st.lists(partitions, max_size=3),
    )
    return st.lists(topic, max_size=3)


@given(st.sampled_from(VERSIONS), topics(plain))
def test_the_size_is_that_of_the_encoded_response(
    version: int, responses: list[FetchResponse.FetchableTopicResponse]
) -> None:
    assert response_size(version).of(responses) == len(encode(FetchResponse(responses=responses), version))


@given(st.sampled_from(FLEXIBLE), topics(st.one_of(plain, tagged)))
def test_tagged_fields_count(version: int, responses: list[FetchResponse.FetchableTopicResponse]) -> None:
    assert response_size(version).of(responses) == len(encode(FetchResponse(responses=responses), version))


@pytest.mark.parametrize("count", [1, 126, 127, 128])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_lengths_of_long_arrays(version: int, count: int) -> None:
    many = [FetchResponse.FetchableTopicResponse(topic="t", partitions=[Data()] * count)]
    for responses in (many, [FetchResponse.FetchableTopicResponse(topic="t")] * count):
        expected = encode(FetchResponse(responses=responses), version)
        assert response_size(version).of(responses) == len(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_response(version: int) -> None:
    assert response_size(version).of([]) == len(encode(FetchResponse(), version))
    assert response_size(version) is response_size(version)
