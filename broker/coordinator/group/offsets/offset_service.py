"""OffsetService: passes commits, fetches and deletions of offsets to the shard of their group.

Source: GroupCoordinatorService (commitOffsets, fetchOffsets, commitTransactionalOffsets, deleteOffsets).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.group.offsets.commit import Codes, FetchedTopic, OffsetCommit, OffsetFetch
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.pending import Pending, completed
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard


_ABORTABLE_SINCE: Final = 4
"""The version of TxnOffsetCommit from which clients know TRANSACTION_ABORTABLE."""


class OffsetService:
    """Requests about committed offsets. An ErrorCode in place of a result stands for the whole request."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self._runtime = runtime
        self._config = config

    def commit(self, commit: OffsetCommit) -> Pending[Codes]:
        """A code for each partition of the commit. The group's id may be empty here, as in Kafka."""
        return self._runtime.write(
            commit.group_id, lambda shard: shard.offsets.commit(commit), partial(_codes, commit)
        )

    def commit_in_transaction(self, producer: TransactionalProducer, commit: OffsetCommit) -> Pending[Codes]:
        """As `commit`; the offsets count when the producer's transaction is committed."""
        if not commit.group_id:
            return completed(_codes(commit, ApiError(ErrorCode.INVALID_GROUP_ID)))
        return self._runtime.write_in_transaction(
            commit.group_id,
            producer,
            lambda shard: shard.offsets.commit_in_transaction(commit),
            lambda error: _codes(commit, _known_to(commit.api_version, error)),
        )

    def fetch(self, fetch: OffsetFetch) -> Pending[Sequence[FetchedTopic] | ErrorCode]:
        """OffsetFetch: the committed offsets of one group."""
        return self._runtime.read(fetch.group_id, lambda shard: shard.offsets.fetch(fetch), _code)

    def delete(
        self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]], who: str
    ) -> Pending[Codes | ErrorCode]:
        """OffsetDelete: a code for each partition; `who` is the client, for the log line."""
        if not group_id:
            return completed(ErrorCode.INVALID_GROUP_ID)
        return self._runtime.write(group_id, lambda shard: shard.offsets.delete(group_id, topics, who), _code)


def _code(error: ApiError) -> ErrorCode:
    return error.code


def _codes(commit: OffsetCommit, error: ApiError) -> Codes:
    return [error.code] * commit.partition_count


def _known_to(version: int, error: ApiError) -> ApiError:
    """The error in terms of a client of this version of TxnOffsetCommit."""
    if error.code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ApiError(ErrorCode.INVALID_TXN_STATE, error.message)
    return error
