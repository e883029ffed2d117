"""ReplicaManager: every partition that this broker has, and appending to many of them at once.

It applies each metadata image: new topics get logs, the logs of deleted topics are deleted. Nothing else creates
or removes a partition. Source: kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

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
    from barnabas.broker.replica.isr import LeaderContext
    from barnabas.broker.replica.moves.alter_log_dirs import ReplicaAlterLogDirsManager
    from barnabas.broker.replica.roles import ReplicaRoles
    from barnabas.broker.replica.truncation import LogTruncator

logger = logging.getLogger("barnabas.replica_manager")

_rate_limit: Final = RateLimit()

SLICE: Final = 200
"""Partitions: some 10 ms."""


class FollowedPartition(Protocol):
    """A partition of which a fetcher reports."""

    @property
    def key(self) -> TopicPartition: ...


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
        context: LeaderContext | None = None,
    ) -> None:
        """`context` is what the partitions of a cluster's member share; None where the node is alone."""
        self.log_manager = log_manager
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.delete_records_purgatory = delete_records_purgatory
        self.slice_size = SLICE
        """Partitions that an image changes between two turns of the loop."""
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
        self._context = context
        self._topics: Mapping[str, TopicImage] = {}
        """Of the newest image that was applied."""
        self.roles: ReplicaRoles | None = None
        self._truncator: LogTruncator | None = None
        self._interrupted: dict[TopicPartition, tuple[str, Pending[None]]] = {}
        """The target and the end of each move that a truncation has interrupted."""
        self._moved: Callable[[TopicPartition], None] | None = None
        if context is not None:
            from barnabas.broker.replica.roles import ReplicaRoles
            from barnabas.broker.replica.truncation import LogTruncator

            self.roles = ReplicaRoles(node_id, context)
            self._moved = self.complete_waiting
            self._truncator = LogTruncator(
                log_manager, runner, self.flusher, self._interrupt_move, self._truncated
            )
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
            if self._context is not None and index in self._indexes_of(topic):
                raise ApiError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker has no replica of {topic}-{index}."
                )
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"This broker has no partition {index} of topic '{topic}'.",
            )
        if topic_id is not ZERO_UUID and topic_id not in (partition.topic_id, ZERO_UUID):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{partition} belongs to another topic id.")
        return partition

    def _indexes_of(self, topic: str) -> Collection[int]:
        """The partitions that the metadata have of a topic, wherever their replicas are."""
        known = self._topics.get(topic)
        return () if known is None else known.partitions

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

    def begin(self, image: MetadataImage) -> Iterator[None]:
        """Makes the partitions of the first image, as `apply_in_slices` does with later ones.

        In a cluster they may have come while this broker was away. On a node that is alone none is new: a missing log
        may be in a directory that has failed.
        """
        return self._apply(image, MetadataDelta.everything(image), is_new=self._context is not None)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Brings the partitions in line with a new image; deleted first, since a name may come back at once."""
        for _ in self.apply_in_slices(image, delta):
            pass

    def apply_in_slices(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """The same; yields after every `slice_size` partitions, and has to be run to its end before the next image.

        The loop may run between: other brokers' requests and the heartbeats do not wait until this broker leads
        thousands of partitions.
        """
        return self._apply(image, delta, is_new=True)

    def _apply(self, image: MetadataImage, delta: MetadataDelta, *, is_new: bool) -> Iterator[None]:
        self._topics = image.topics
        if self._context is not None:
            self._context.brokers = image.brokers
            self._context.traffic.topics = image.topics
        for topic in delta.deleted_topics.values():
            self._remove(topic)
        if delta.deleted_topics:
            self._answer_waiting_for(delta.deleted_topics.values())
        count = 0
        for name in sorted(delta.created_topics | delta.changed_topics.keys()):
            topic = image.topics[name]
            for partition in delta.partitions_of(topic):
                self._update(topic, partition, is_new=is_new)
                count += 1
                if not count % self.slice_size:
                    yield
        if self.roles is not None and delta.broker_changes:
            yield from self._brokers_changed(self.roles)
        if self.roles is not None:
            self.roles.image_applied()

    def _update(self, topic: TopicImage, image: PartitionImage, *, is_new: bool) -> None:
        key = topic.name, image.partition
        partition = self._partitions.get(key)
        if partition is not None and partition.is_truncating and self.roles is not None:
            self.roles.hold(topic, image)
        elif self._node_id not in image.replicas:
            self._remove_replica(topic, key)
        elif partition is None:
            missing = self._without_log.get(key)
            self._open(topic, image, is_new=is_new if missing is None else missing.is_new)
        else:
            if self.roles is None:
                partition.update(image)
            else:
                self.roles.change(partition, image)
            self.complete_waiting(key)

    def _interrupt_move(self, partition: Partition) -> None:
        """A log that is moving to another directory is about to be truncated: the future log has what is cut off, and
        copies anew afterwards."""
        moves = self.moves
        target = None if moves is None else moves.target_of(partition.key)
        if moves is not None and target is not None:
            self._interrupted[partition.key] = target, moves.cancel(partition.key)

    def _move_again(self, partition: Partition, target: str) -> None:
        directory = self.log_manager.dirs.of_path(f"{target}/")
        is_here = self._partitions.get(partition.key) is partition and not partition.offline
        if self.moves is not None and directory is not None and is_here:
            self.moves.begin(partition, directory)

    def _truncated(self, partition: Partition) -> None:
        """The truncation of a follower's log has ended; the metadata may have changed its role meanwhile."""
        interrupted = self._interrupted.pop(partition.key, None)
        if interrupted is not None:
            target, cancelled = interrupted
            cancelled.add_done_callback(lambda _: self._move_again(partition, target))
        held = None if self.roles is None else self.roles.take_held(partition.key)
        if held is not None and self._partitions.get(partition.key) is partition:
            topic, image = held
            self._update(topic, image, is_new=False)

    def _remove_replica(self, topic: TopicImage, key: TopicPartition) -> None:
        """The partition has moved to other brokers: its replica here is stopped and deleted."""
        if key in self._partitions or key in self._without_log:
            self._remove_partition(topic, key[1])
            self._leaving.discard(key)
            self.complete_waiting(key)

    def _brokers_changed(self, roles: ReplicaRoles) -> Iterator[None]:
        """Leaders may be reachable now, and replicas on brokers that are fenced now are not waited for any more."""
        for count, partition in enumerate(list(self._partitions.values()), 1):
            if self._partitions.get(partition.key) is partition:
                roles.leaders_changed(partition)
                if partition.remote_replicas:
                    partition.maybe_advance_high_watermark()
                    self.complete_waiting(partition.key)
            if not count % self.slice_size:
                yield

    def maybe_shrink_isrs(self) -> None:
        """Proposes ISRs without the replicas that lag; called every half of replica.lag.time.max.ms."""
        for partition in list(self._partitions.values()):
            if partition.maybe_shrink_isr():
                self.complete_waiting(partition.key)

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
        partition = self._partitions[key] = Partition(
            topic.name,
            topic.topic_id,
            image,
            log,
            self._node_id,
            context=self._context,
            moved=self._moved,
            truncator=self._truncator,
        )
        if self.roles is not None:
            self.roles.follow(partition)
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
            self._remove_partition(topic, index)

    def _remove_partition(self, topic: TopicImage, index: int) -> None:
        key = topic.name, index
        if self.roles is not None:
            self.roles.forget(key)
        partition = self._partitions.pop(key, None)
        if partition is None:
            if self._without_log.discard(key):
                self._remove_unfinished(topic, index)
            return
        partition.resign()
        self._leaving.add(key)
        if self.moves is not None:
            self.moves.cancel(key)
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

    # ---- what the fetchers report: broker.replica.fetcher.ports.FollowerEvents

    def follower_appended(self, log: FollowedPartition, info: LogAppendInfo, size: int) -> None:
        """Records of a leader were appended: a flush may be due, and consumers may read them later."""
        if self._context is not None:
            self._context.traffic.received(log.key, self._node_id, size)
        partition = self._partitions.get(log.key)
        if partition is not None and partition.log.needs_flush():
            self.flusher.flush(partition.log)

    def follower_offsets_moved(self, log: FollowedPartition) -> None:
        """The high watermark or the log start offset of a follower moved: consumers that read here go on."""
        self.fetch_purgatory.check_and_complete(log.key)

    def follower_failed(self, log: FollowedPartition, error: Exception) -> None:
        """A follower could not go on; a fault of the disk takes the log directory offline."""
        logger.error("%s-%d is not fetched until its leader changes: %s", *log.key, error)
        partition = self._partitions.get(log.key)
        if (
            partition is not None
            and isinstance(error, KafkaStorageError)
            and not isinstance(error, TRANSIENT_ERRORS)
        ):
            self.log_dir_failed(partition.log.log_dir, str(error))

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
                if self.roles is not None:
                    self.roles.stop_fetching(key)
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
