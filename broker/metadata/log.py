"""What a metadata log hands over, and how it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.protocol.schema import Message

MAX_RECORDS_PER_USER_OP: Final = 10_000
"""One request is one atomic batch of records, and has to stay one that can be written. As in QuorumController."""


class MetadataLogError(Exception):
    """The metadata log is damaged, newer than this broker, or belongs to another node."""


class MetadataBatch(NamedTuple):
    """Committed records, in order; none where only the offset advances.

    `last_offset` is that of the last record, `epoch` the leader epoch that wrote it: those of the image after
    the replay. A metadata transaction is never divided.
    """

    records: Sequence[Message]
    last_offset: int
    epoch: int
