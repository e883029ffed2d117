"""ReplicaManager: every partition that this broker has, and appending to many of them at once.

It applies each metadata image: new topics get logs, the logs of deleted topics are deleted. Nothing else creates
or removes a partition. Source: kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.error_map import MAPPED_ERRORS, error_code_of
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.broker.pending import Pending
from barnabas.broker.probes import TopicProbe
from barnabas.broker.replica.append import WITHOUT_LOG_START, AppendEntry, AppendError, AppendResult
from barnabas.broker.replica.delayed_delete_records import DelayedDeleteRecords, DeletionResult
from barnabas.broker.replica.delayed_produce import DelayedProduce, Unacknowledged
from barnabas.broker.replica.log_flusher import LogFlusher
from barnabas.broker.replica.new_logs import MissingLog, MissingLogs, new_logs, no_space_error, run_all
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.broker.waiting.blocking import BlockingRunner, Work
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import ZERO_UUID, Uuid, uuid_to_string
from barnabas.storage.errors import TRANSIENT_ERRORS, InconsistentTopicIdError, KafkaStorageError
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin, LogAppendInfo, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.moves.alter_log_dirs import ReplicaAlterLogDirsManager

logger = logging.getLogger("barnabas.replica_manager")

NO_REPLICA: Final = -1
_rate_limit: Final = RateLimit()


class ReplicaManager:
    """Partitions by topic and index, their purgatories, and the flushes that acknowledgements wait for."""

    def __init__(
        self,
        *,
        log_manager: LogManager,
        node_id: int,
        runner: BlockingRunner,
        produce_purgatory: DelayedOperationPurgatory,
        fetch_purgatory: DelayedOperationPurgatory,
        delete_records_purgatory: DelayedOperationPurgatory,
        probe: TopicProbe,
        log_dir_failed: Callable[[str], None],
        verifies_transactions: bool = False,
    ) -> None:
        self.log_manager = log_manager
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.delete_records_purgatory = delete_records_purgatory
        self._node_id = node_id
        self._probe = probe
        self._log_dir_failed = log_dir_failed
        self._verifies_transactions = verifies_transactions
        self._partitions: dict[TopicPartition, Partition] = {}
        self._leaving: set[TopicPartition] = set()
        """Of deleted topics that the published image still has: prepare() has removed them already."""
        self._without_log = MissingLogs(log_manager, node_id)
        self.on_missing_log_opened: Callable[[str, int], None] = lambda topic, index: None
        """Called for each partition that had no log and has one now."""
        self.flusher = LogFlusher(runner, self._flushed, self._flush_failed)
        self.moves: ReplicaAlterLogDirsManager | None = None
        """Notified of changes to partitions that move between log directories."""

    # ---- the partitions

    def partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    def partition(self, topic: str | None, index: int, topic_id: Uuid = ZERO_UUID) -> Partition:
        """The partition. `topic` is None where the metadata know no topic of the id that was asked for.

        Raises ApiError when it is not here, or when `topic_id` is given and is another's.
        """
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {uuid_to_string(topic_id)}.")
        partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._without_log:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic}-{index} could not be opened."
                )
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"This broker has no partition {index} of topic '{topic}'.",
            )
        if topic_id is not ZERO_UUID and topic_id not in (partition.topic_id, ZERO_UUID):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{partition} belongs to another topic id.")
        return partition

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, if it has a log here, in whatever state."""
        return self._partitions.get((topic, index))

    def lacks_log(self, topic: str, index: int) -> bool:
        """Whether the partition is here, and its log could not be opened."""
        return (topic, index) in self._without_log

    @property
    def without_log_count(self) -> int:
        """How many partitions are here whose log could not be opened; partitions() leaves them out."""
        return len(self._without_log)

    @property
    def has_offline_partitions(self) -> bool:
        """Whether is_offline() can be true of any partition."""
        return bool(self._without_log or self.log_manager.dirs.offline)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker's replica of the partition cannot be used: its disk failed, or it never got a log."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return (topic, index) not in self._leaving
        return partition.offline

    def no_space_error(self) -> ApiError | None:
        """The error of new partitions while every log directory is full, None while one has space."""
        return no_space_error(self.log_manager)

    def prepare(self, image: MetadataImage, delta: MetadataDelta) -> Work | None:
        """The part of apply() that waits for the disk, to run before it and off the event loop.

        Directories of deleted topics are renamed at once, since the name may return, and synced: until its first flush
        a directory may lack its topic id, and after a crash the next topic of that name could take it over.
        """
        for topic in delta.deleted_topics.values():
            self._remove(topic)
        jobs: list[Work] = [self.log_manager.dirs.sync] if delta.deleted_topics else []
        try:
            if new := new_logs(image, delta, self._node_id, self._is_known):
                wanted = [(name, index, image.topics[name].topic_id) for name, index in new]
                jobs.append(self.log_manager.prepare_logs(wanted, new).run)
        except (OSError, KafkaStorageError) as error:
            logger.error("new directories cannot be planned: %s", error)
        return partial(run_all, jobs) if jobs else None

    def _is_known(self, key: TopicPartition) -> bool:
        """A partition without a log is not new: its log may be in a directory that has failed."""
        return key in self._partitions or key in self._without_log

    def apply(self, image: MetadataImage, delta: MetadataDelta, *, at_start: bool = False) -> None:
        """Brings the partitions in line with a new image; deleted first, since a name may come back at once.

        `at_start` no partition is new: a missing log may be in a directory that has failed.
        """
        for topic in delta.deleted_topics.values():
            self._remove(topic)
        if delta.deleted_topics:
            self._answer_waiting_for(delta.deleted_topics.values())
        for name in sorted(delta.created_topics | delta.changed_topics.keys()):
            topic = image.topics[name]
            self._update(topic, delta.partitions_of(topic), is_new=not at_start)

    def _update(self, topic: TopicImage, changed: Iterable[PartitionImage], *, is_new: bool) -> None:
        for partition_image in changed:
            if self._node_id not in partition_image.replicas:
                continue
            index = partition_image.partition
            partition = self._partitions.get((topic.name, index))
            if partition is not None:
                partition.update(partition_image)
                self.complete_waiting((topic.name, index))
            else:
                missing = self._without_log.get((topic.name, index))
                self._open(topic, partition_image, is_new=is_new if missing is None else missing.is_new)

    def _open(self, topic: TopicImage, image: PartitionImage, *, is_new: bool) -> None:
        """Creates the partition over its log; without one it stays offline."""
        key = (topic.name, image.partition)
        try:
            log = self.log_manager.get_or_create_log(
                *key, topic.topic_id, directory_id=image.directory_of(self._node_id), is_new=is_new
            )
        except (KafkaStorageError, InconsistentTopicIdError) as error:
            if self._without_log.add(key, MissingLog(topic, image, is_new, error)):
                logger.error("partition %s-%d is offline: %s", *key, error)
            return
        log.producer_state_manager.verifies_transactions = self._verifies_transactions
        self._partitions[key] = Partition(topic.name, topic.topic_id, image, log, self._node_id)
        if self._without_log.discard(key):
            logger.warning("partition %s-%d has a log now, and is online", *key)
            self.on_missing_log_opened(*key)

    def missing_logs_to_try(self) -> list[TopicPartition]:
        """The partitions that wait for room, or a descriptor, for their logs, and may have them now."""
        return self._without_log.to_try()

    def open_missing_log(self, key: TopicPartition) -> None:
        """Retries to create the log of a partition that still has none; a failure changes nothing.

        Makes files and syncs the log directory, on the calling thread.
        """
        missing = self._without_log.get(key)
        if missing is not None:
            self._open(missing.topic, missing.partition, is_new=missing.is_new)

    def verify_transactions(self, enabled: bool) -> None:
        """Sets whether logs accept records of a transaction only after its coordinator has verified it."""
        self._verifies_transactions = enabled
        for partition in self._partitions.values():
            partition.log.producer_state_manager.verifies_transactions = enabled

    def _remove(self, topic: TopicImage) -> None:
        self._probe.topic_deleted(topic.name)
        for index in topic.partitions:
            partition = self._partitions.pop((topic.name, index), None)
            if partition is None:
                if self._without_log.discard((topic.name, index)):
                    self._remove_unfinished(topic, index)
                continue
            partition.leader_id = NO_REPLICA
            self._leaving.add((topic.name, index))
            if self.moves is not None:
                self.moves.cancel((topic.name, index))
            try:
                self.log_manager.delete_log(topic.name, index)
            except KafkaStorageError as error:
                logger.error("the files of %s, which was deleted, are still there: %s", partition, error)

    def _answer_waiting_for(self, deleted: Iterable[TopicImage]) -> None:
        """Not in prepare(): a client that gets the error sees an image without the topic. A fetch of several partitions
        finds all of them gone."""
        keys = [(topic.name, index) for topic in deleted for index in topic.partitions]
        self._leaving.difference_update(keys)
        self.fetch_purgatory.check_and_complete_all(keys)
        for key in keys:
            self.produce_purgatory.check_and_complete(key)
            self.delete_records_purgatory.check_and_complete(key)

    def _remove_unfinished(self, topic: TopicImage, index: int) -> None:
        """Removes the directory of a log that could not be created: the next topic of that name needs its own."""
        try:
            self.log_manager.discard_unfinished(topic.name, index, topic.topic_id)
        except (KafkaStorageError, OSError) as error:
            logger.error(
                "the unfinished log of %s-%d, which was deleted, is still there: %s",
                topic.name,
                index,
                error,
            )

    def complete_waiting(self, key: TopicPartition) -> None:
        """Checks the operations that wait for a change of the partition."""
        self.produce_purgatory.check_and_complete(key)
        self.fetch_purgatory.check_and_complete(key)
        self.delete_records_purgatory.check_and_complete(key)

    # ---- appending

    def append_records(
        self,
        entries: Sequence[AppendEntry],
        required_acks: int,
        timeout_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Mapping[TopicPartition, VerificationGuard] | None = None,
        transaction_version: int = 0,
    ) -> list[AppendResult] | Pending[list[AppendResult]]:
        """Appends each entry; the results are in the same order.

        `guards` are those of verified transactions (see broker.coordinator.transaction.verification);
        `transaction_version` is that of the transaction which a marker ends.
        The result is pending while acks=all waits for replicas, or a flush policy for the disk.
        """
        results: list[AppendResult] = []
        waiting: list[Unacknowledged] = []
        appended: list[Partition] = []
        try:
            for topic, index, topic_id, records, fault in entries:
                try:
                    partition = self.partition(topic, index, topic_id)
                except ApiError as error:
                    results.append(self._rejected(topic or "", error, len(records)))
                    continue
                if fault is not None:
                    results.append(self._rejected(partition.topic, fault, len(records)))
                    continue
                guard = guards.get(partition.key) if guards else None
                try:
                    info = partition.append_as_leader(
                        records, required_acks, origin, guard, transaction_version
                    )
                except MAPPED_ERRORS as error:
                    results.append(self._append_failed(partition, error, len(records)))
                    continue
                appended.append(partition)
                if not info.duplicate:
                    self._count(partition, info, len(records))
                needs_flush = self._flush_appended(partition.log, info)
                if needs_flush or (
                    required_acks == ACKS_ALL and partition.log.high_watermark <= info.last_offset
                ):
                    waiting.append(Unacknowledged(partition, len(results), info.last_offset + 1, needs_flush))
                results.append(info)
        finally:
            # Only now, so that a fetch of many of the partitions gets all records together; as in Kafka.
            if len(appended) == 1:
                self.fetch_purgatory.check_and_complete(appended[0].key)
            elif appended:
                self.fetch_purgatory.check_and_complete_all([partition.key for partition in appended])
        if not waiting or required_acks == 0:
            return results
        operation = DelayedProduce(timeout_ms, waiting, results, required_acks)
        keys = [item.partition.key for item in waiting]
        self.produce_purgatory.try_complete_else_watch(operation, keys)
        return operation.pending

    def _count(self, partition: Partition, info: LogAppendInfo, size: int) -> None:
        traffic = partition.traffic
        if traffic is None:
            traffic = partition.traffic = self._probe.topic(partition.topic)
        traffic.produced(info.record_count, size)
        if info.conversion_count:
            self._probe.converted(partition.topic, info.conversion_count)

    def _flush_appended(self, log: UnifiedLog, info: LogAppendInfo) -> bool:
        """Flushes the log if that is due; returns whether the append is acknowledged only after an fsync."""
        if log.needs_flush():
            self.flusher.flush(log)
            # After a roll the old segment is synced as well, but no request waits for that.
            return log.unflushed_messages >= log.config.flush_messages
        # The first copy's acknowledgement may still wait for the disk; the second must not overtake it.
        return info.duplicate and self.flusher.is_flushing(log) and log.recovery_point <= info.last_offset

    def _rejected(self, topic: str, error: Exception, size: int) -> AppendError:
        code = error_code_of(error)
        self._probe.produce_failed(topic, code, size)
        if code is ErrorCode.INVALID_RECORD:
            self._probe.batch_invalid(topic, error)
        message = error.message if isinstance(error, ApiError) else str(error)
        return AppendError(code, message, getattr(error, "record_errors", ()))

    def _append_failed(self, partition: Partition, error: Exception, size: int) -> AppendError:
        log = partition.log
        failure = self._rejected(partition.topic, error, size)
        if isinstance(error, KafkaStorageError) and not isinstance(error, TRANSIENT_ERRORS):
            logger.error("append to %s failed, its log directory is taken offline: %s", partition, error)
            self.log_dir_failed(log.log_dir)
        if failure.error not in WITHOUT_LOG_START:
            failure.log_start_offset = log.log_start_offset
        return failure

    # ---- deleting records

    def delete_records(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: int
    ) -> list[DeletionResult] | Pending[list[DeletionResult]]:
        """Deletes the records before each offset (HIGH_WATERMARK: all replicated ones); results are in the same order.

        The result is pending while a replica still has such records.
        """
        results: list[DeletionResult] = []
        waiting: list[tuple[Partition, DeletionResult]] = []
        for (topic, index), offset in wanted.items():
            result = DeletionResult(topic, index)
            results.append(result)
            try:
                partition = self.partition(topic, index)
                result.required_offset, result.low_watermark = partition.delete_records_on_leader(offset)
            except MAPPED_ERRORS as error:
                result.fail(error_code_of(error))
                continue
            self.fetch_purgatory.check_and_complete(partition.key)  # sessions report the new log start offset
            if result.low_watermark < result.required_offset:
                waiting.append((partition, result))
        if not waiting:
            return results
        operation = DelayedDeleteRecords(timeout_ms, waiting, results)
        keys = [partition.key for partition, _ in waiting]
        self.delete_records_purgatory.try_complete_else_watch(operation, keys)
        return operation.pending

    # ---- flushing

    def _flushed(self, log: UnifiedLog) -> None:
        self.produce_purgatory.check_and_complete((log.topic, log.partition))

    def _flush_failed(self, log: UnifiedLog, error: KafkaStorageError) -> None:
        if isinstance(error, TRANSIENT_ERRORS):
            _rate_limit.warning(logger, log, "flush of %s has to wait: %s", log.name, error)
            return
        logger.error(
            "fsync of %s-%d failed, its log directory is taken offline: %s", log.topic, log.partition, error
        )
        self.log_dir_failed(log.log_dir)

    def log_dir_failed(self, log_dir: str, why: str = "its disk failed") -> None:
        """Takes every partition in `log_dir` offline: its disk cannot be trusted any more."""
        self.log_manager.log_dir_failed(log_dir, why)

    def log_dir_went_offline(self, log_dir: str) -> None:
        """Takes the partitions of a directory offline; the log manager calls this when one has failed."""
        for key, partition in list(self._partitions.items()):
            if partition.log.log_dir == log_dir and not partition.offline:
                partition.offline = True
                self.complete_waiting(key)
        if self.moves is not None:
            self.moves.log_dir_failed(log_dir)
        self._log_dir_failed(log_dir)

    def log_replaced(self, partition: Partition, log: UnifiedLog) -> None:
        """The partition has moved to another log directory: `log` has the same contents."""
        partition.log = log
        self.complete_waiting(partition.key)

    def read_failed(self, partition: Partition, error: Exception) -> None:
        """A read raised `error`: a fault of the disk takes the log directory offline, as in a write."""
        if (
            isinstance(error, KafkaStorageError)
            and isinstance(error.__cause__, OSError)
            and not isinstance(error, TRANSIENT_ERRORS)
        ):
            self.log_dir_failed(partition.log.log_dir, str(error))
