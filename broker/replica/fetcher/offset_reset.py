"""New offsets for partitions whose leader has not what they ask for.

The follower is ahead of its leader (which was elected unclean), or so far behind that the leader has deleted what it
wants. It asks for the leader's log end offset, and unless its own log is longer, for its log start offset.
Source: AbstractFetcherThread.fetchOffsetAndTruncate, RemoteLeaderEndPoint.fetchEarliestOffset/fetchLatestOffset.

    the leader's offsets                     | the follower
    -----------------------------------------+-------------------------------------------
    end below the follower's end             | truncates to the leader's end
    start above the follower's end           | empties its log and begins at the leader's start
    else                                     | goes on at its own end
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.broker.replica.fetcher.fetch_state import PartitionFetchState
from barnabas.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.storage.offsets import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2


def next_question(resetting: Iterable[PartitionFetchState]) -> tuple[int, list[PartitionFetchState]]:
    """LATEST for the partitions that have not asked for it, or else EARLIEST for all."""
    states = list(resetting)
    first = [state for state in states if state.leader_end_offset is None]
    return (LATEST, first) if first else (EARLIEST, states)


def offsets_request(
    states: Iterable[PartitionFetchState], timestamp: int, replica_id: int
) -> ListOffsetsRequest:
    """Asks the leader for LATEST or EARLIEST of each partition."""
    by_topic: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for state in states:
        topic, index = state.key
        by_topic.setdefault(topic, []).append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=index, current_leader_epoch=state.leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=0,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )


def answers(
    response: ListOffsetsResponse,
) -> Iterator[tuple[TopicPartition, ListOffsetsResponse.ListOffsetsPartitionResponse]]:
    """What the response has for each partition."""
    for topic in response.topics:
        for partition in topic.partitions:
            yield (topic.name, partition.partition_index), partition
