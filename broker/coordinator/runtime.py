"""CoordinatorRuntime: runs the shards of one coordinator: loads them, runs their operations, writes their records.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from broker.coordinator.shard import CoordinatorResult, CoordinatorShard
from broker.coordinator.txn import TransactionalProducer, TransactionMarker
from broker.metadata.image import MetadataDelta, MetadataImage
from broker.request import Pending
from protocol.errors import ApiError

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R")
Failed = Callable[[ApiError], R]
"""Makes a response of an error: the operation's own ApiError, or one of the runtime's (see `write`)."""


class CoordinatorRuntime(Generic[S]):
    """The shards of one coordinator's topic that this broker leads. Lives on the event loop."""

    def write(
        self, key: str, operation: Callable[[S], CoordinatorResult[R]], failed: Failed[R]
    ) -> Pending[R]:
        """Runs `operation` on the shard that `key` (a group, a transactional id) belongs to.

        The answer comes when its records are committed. `failed` gets what the operation raised, or
        COORDINATOR_NOT_AVAILABLE (there is no such partition; its records could not be written), NOT_COORDINATOR
        (another broker leads it, or this one does no longer), COORDINATOR_LOAD_IN_PROGRESS; after a failure the state
        is as it was before.
        """
        raise NotImplementedError

    def read(self, key: str, operation: Callable[[S], R], failed: Failed[R]) -> Pending[R]:
        """Looks at the shard of `key`. The answer comes when all that was seen is committed."""
        raise NotImplementedError

    def read_all(self, operation: Callable[[S], R], failed: Failed[R]) -> list[Pending[R]]:
        """Looks at every shard that this broker leads, one answer for each."""
        raise NotImplementedError

    def write_all(
        self, operation: Callable[[S], CoordinatorResult[R]], failed: Failed[R]
    ) -> list[Pending[R]]:
        """Runs `operation` on every shard that is loaded here, one answer for each."""
        raise NotImplementedError

    def write_in_transaction(
        self,
        key: str,
        producer: TransactionalProducer,
        operation: Callable[[S], CoordinatorResult[R]],
        failed: Failed[R],
    ) -> Pending[R]:
        """`write`, with records that belong to a producer's transaction and count when that is committed.

        The transaction's coordinator is asked first whether the partition belongs to it (KIP-890); with transaction
        version 2 it is added. The shard's `replay` sees the producer's id with these records.
        """
        raise NotImplementedError

    def complete_transaction(self, partition: int, marker: TransactionMarker) -> Pending[ApiError | None]:
        """Writes the marker that ends a producer's transaction in `partition` of the topic, and replays it.

        The answer is None once it is committed, or why it could not be written.
        """
        raise NotImplementedError

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follows the metadata: loads what this broker leads from now on, unloads what it does no longer."""
        raise NotImplementedError

    def shards(self) -> Sequence[S]:
        """Those that are loaded; for metrics, and to look at."""
        raise NotImplementedError
