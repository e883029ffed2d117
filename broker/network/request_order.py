"""Which requests of a connection are handled while an earlier one of the same connection waits for its answer.

Apache Kafka handles one request of a connection at a time: its SocketServer reads no further request before the answer
to the last one is sent. Clients rely on it: no answer may show a state older than an earlier answer on the same
connection did. So a request behind one that waits is held back, and handled when all answers in front of it are on
their way. Two pairs overlap, since they are frequent and nothing in their answers can be old:

| waits        | overlaps     | why it may |
| ------------ | ------------ | ------------------------------------------------------------------------------------ |
| Produce      | Produce      | Its batches are appended behind the first one's, or stand in line behind their       |
|              |              | verification; what the first waits for is its acknowledgement. The answer names the  |
|              |              | offsets that the batches got, and those stay.                                        |
| OffsetCommit | OffsetCommit | It is decided on top of the first, and its records follow the first one's in the     |
|              |              | log; what the first waits for is the append. The answer has error codes alone.       |

Everything else is held back. What it would show too early, by what it is behind:

| waits                               | what a later request would show                                            |
| ----------------------------------- | -------------------------------------------------------------------------- |
| Fetch                               | ListOffsets, Metadata, Fetch: the log from before the records and the high |
|                                     | watermark that the first fetch answers with                                |
| Produce                             | Fetch, ListOffsets: a log end from before records that are acknowledged    |
| JoinGroup, SyncGroup                | Heartbeat, DescribeGroups, OffsetCommit: the generation, the assignment or |
|                                     | the member id that the first answer replaces                               |
| OffsetCommit, TxnOffsetCommit       | OffsetFetch, ListGroups: the offsets from before the commit                |
| InitProducerId, AddPartitionsToTxn, | any request of the same producer: the transaction from before the change   |
| AddOffsetsToTxn, EndTxn             |                                                                            |
| CreateTopics, AlterConfigs,         | Metadata, DescribeConfigs, ListOffsets: the cluster or the log from before |
| DeleteRecords and the like          | the change                                                                 |

An API that is not named is held back and holds back: one that is added later is in Kafka's order by itself.
"""

from __future__ import annotations

from typing import Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import Frame

_KEY_BYTES: Final = 2

_OVERLAPPING: Final = frozenset(
    key.to_bytes(_KEY_BYTES, "big") for key in (ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT)
)
"""The APIs of the first table, as requests begin: requests of one of these overlap with each other."""


def overlapping_api(frame: Frame) -> bytes | None:
    """The first bytes of requests that may overlap with the one in `frame`; None where none may."""
    start = bytes(frame[:_KEY_BYTES])
    return start if start in _OVERLAPPING else None


def may_overlap(frame: Frame, api: bytes | None) -> bool:
    """Whether the request in `frame` is handled while requests wait whose overlapping_api() is `api`."""
    return api is not None and frame[:_KEY_BYTES] == api
