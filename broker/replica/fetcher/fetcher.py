"""ReplicaFetcher: fetches the partitions that one broker leads, or some of them, over one connection.

A state machine on the loop with one request in flight. Source: kafka.server.AbstractFetcherThread,
ReplicaFetcherThread, RemoteLeaderEndPoint.

    step       | what it waits for                      | next
    -----------+----------------------------------------+-----------------------------------------------------
    IDLE       | a wake-up, the end of a delay          | ASKING if a partition is RESETTING, FETCHING if one
               |                                        | is ready, else IDLE
    ASKING     | the response to ListOffsets            | IDLE, and on at once
    FETCHING   | the response to Fetch                  | APPLYING, or IDLE after an error
    APPLYING   | the loop, after each slice of records  | IDLE when all was applied, and on at once
    CLOSED     | nothing, for good                      |

The response for a partition is used only where the partition is still fetched, is not delayed, and its offset and
leader epoch are those of the request. What is not used is heard again: a leader says each high watermark once in a
session, and this broker's consumers would wait for it until the next record came.

    response                                   | what is done
    -------------------------------------------+-------------------------------------------------------------------
    diverging epoch                            | truncate (see `truncation`); neither high watermark nor log start
    the same, at or before the leader's start  | empty the log, begin at the leader's log start
    records                                    | append those of epochs up to the request's, high watermark, log start
    OFFSET_OUT_OF_RANGE                        | RESETTING (see `offset_reset`)
    FENCED_LEADER_EPOCH                        | failed: fetched again when the metadata give it a newer epoch
    OFFSET_MOVED_TO_TIERED_STORAGE             | failed: tiered storage is not supported
    corrupt records, any other error           | delayed by replica.fetch.backoff.ms
    an error of the disk or of ours            | failed
    no response, session errors                | all delayed, the connection and the session begin again
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.error_map import MAPPED_ERRORS
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeChannel, NodeClientError
from barnabas.broker.replica.fetcher.fetch_state import FetchPhase, PartitionFetchState
from barnabas.broker.replica.fetcher.fetched import SLICE_BYTES, FetchedPartition
from barnabas.broker.replica.fetcher.offset_reset import LATEST, answers, next_question, offsets_request
from barnabas.broker.replica.fetcher.ports import FollowedLog, FollowerEvents, FollowerQuota
from barnabas.broker.replica.fetcher.session import FetchSessionHandler, SessionRequest, WantedPartition
from barnabas.broker.replica.fetcher.stats import OneMinuteRate
from barnabas.broker.replica.fetcher.truncation import truncation_offset
from barnabas.broker.replica.fetcher.versions import (
    FIRST_VERSION_WITH_REPLICA_STATE,
    fetch_version,
    list_offsets_version,
)
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.offsets import ListOffsetsResponse
from barnabas.protocol.records.errors import CorruptRecordError, InvalidRecordError
from barnabas.protocol.schema import Message
from barnabas.storage.errors import TRANSIENT_ERRORS, UnexpectedAppendOffsetError
from barnabas.storage.offsets import NO_LEADER_EPOCH, EpochEndOffset, LogAppendInfo, TopicPartition

logger = logging.getLogger("barnabas.replica_fetcher")
_rate_limit: Final = RateLimit()

SLICE_S: Final = 0.02
"""The loop gets its turn after this time of applying a response, too."""

LOOK_AT_ALL_S: Final = 1.0
"""How often all partitions are looked at: retention here moves a log's start, which nobody reports to the fetcher."""

_RESTARTED_SESSION: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)
"""The leader has evicted the session: a full fetch follows at once."""

_PASSING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""One of the two brokers has newer metadata than the other, after every election: not worth a line in the log."""


class FetcherConfig(NamedTuple):
    """The configuration of the fetchers; the callables are called each time, since the values may change."""

    node_id: int
    wait_max_ms: int
    """replica.fetch.wait.max.ms: how long the leader holds a request back when it has nothing new."""
    min_bytes: int
    partition_max_bytes: int
    """replica.fetch.max.bytes."""
    response_max_bytes: int
    backoff_ms: int
    """replica.fetch.backoff.ms."""
    request_timeout_ms: int
    """replica.socket.timeout.ms."""
    metadata_version: Callable[[], int]
    broker_epoch: Callable[[], int]


class FetcherStep(Enum):
    """What a fetcher does; the table is in the module's docstring."""

    IDLE = "Idle"
    ASKING = "Asking"
    FETCHING = "Fetching"
    APPLYING = "Applying"
    CLOSED = "Closed"


class ReplicaFetcher:
    """One fetcher. `connect` opens a connection to the leader; `failed` gets the partitions that are given up."""

    def __init__(
        self,
        client_id: str,
        address: NodeAddress,
        *,
        connect: Callable[[NodeAddress], NodeChannel],
        config: FetcherConfig,
        timer: Timer,
        events: FollowerEvents,
        quota: FollowerQuota,
        failed: set[TopicPartition],
    ) -> None:
        self.client_id = client_id
        self.address = address
        self.step = FetcherStep.IDLE
        self.request_count = 0
        self.byte_count = 0
        self.request_rate = OneMinuteRate(timer.time)
        self._connect = connect
        self._config = config
        self._timer = timer
        self._events = events
        self._quota = quota
        self._failed = failed
        self._states: dict[TopicPartition, PartitionFetchState] = {}
        self._session = FetchSessionHandler()
        self._session_restarts = 0
        self._changed: dict[TopicPartition, None] = {}
        """What may be wanted of these is something else than in the last request; all that are not ready are here."""
        self._look_at_all_s = 0.0
        self._channel: NodeChannel | None = None
        self._work: deque[FetchedPartition] = deque()
        self._turn: TimerHandle | None = None

    # ---- its partitions

    @property
    def is_empty(self) -> bool:
        return not self._states

    @property
    def states(self) -> Iterable[PartitionFetchState]:
        return self._states.values()

    def add(self, log: FollowedLog, leader_epoch: int, offset: int) -> None:
        """Fetches a partition from `offset` on (see InitialFetchState); one in the same epoch goes on as it is."""
        known = self._states.get(log.key)
        if known is not None and known.leader_epoch == leader_epoch and known.log is log:
            return
        assert not log.is_truncating, "a partition changes its role when its truncation has ended"
        state = PartitionFetchState(log, leader_epoch, offset)
        self.put(state)
        if 0 <= offset < log.log_end_offset and state.last_fetched_epoch == NO_LEADER_EPOCH:
            # Nothing can tell how far such a log agrees with the leader's, but for the high watermark.
            self._truncate(state, offset)

    def put(self, state: PartitionFetchState) -> None:
        """Takes a partition over, with its state, from another fetcher of the leader."""
        self._states[state.key] = state
        self._changed[state.key] = None
        state.truncated = self._truncated
        self.wake()

    def remove(self, key: TopicPartition) -> PartitionFetchState | None:
        """Fetches the partition no more: nothing of a response that is under way is applied to it."""
        self._changed[key] = None
        return self._states.pop(key, None)

    def wake(self) -> None:
        """Has the fetcher look, in the next pass of the loop, for something to do."""
        if self.step is FetcherStep.IDLE:
            self._look_at(self._timer.time())

    def close(self) -> None:
        """Closes the connection; the response of a request under way is not used."""
        self.step = FetcherStep.CLOSED
        self._states.clear()
        self._changed.clear()
        self._work.clear()
        if self._turn is not None:
            self._turn.cancel()
        self._disconnect()

    # ---- steps

    def _look_at(self, when: float) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._turn = self._timer.call_at(when, self._look)

    def _look(self) -> None:
        self._turn = None
        if self.step is not FetcherStep.IDLE:
            return
        now = self._timer.time()
        resetting = [
            state
            for state in self._not_ready()
            if state.phase is FetchPhase.RESETTING and not state.is_delayed(now)
        ]
        if resetting:
            self._ask_for_offsets(resetting)
        elif not self._fetch(now):
            self._rest(now)

    def _rest(self, now: float) -> None:
        """Nothing can be fetched: looks again when a delay ends, or a while later."""
        if not self._states:
            return  # `add` wakes it
        soonest = now + self._config.backoff_ms / 1000
        delays = [state.delayed_until for state in self._not_ready() if state.is_delayed(now)]
        throttled = self._quota.delay_s()
        if throttled > 0:
            delays.append(now + throttled)
        self._look_at(min([soonest, *delays]))

    def _not_ready(self) -> Iterable[PartitionFetchState]:
        """All that are delayed or not fetched, and perhaps others."""
        for key in self._changed:
            state = self._states.get(key)
            if state is not None:
                yield state

    def _go_on(self) -> None:
        self.step = FetcherStep.IDLE
        self._look()

    # ---- fetching

    def _fetch(self, now: float) -> bool:
        """Sends a request; False where there is nothing to ask for."""
        session = self._build(now)
        if session is None:
            return False
        version = fetch_version(self._config.metadata_version(), uses_topic_ids=session.uses_topic_ids)
        self.step = FetcherStep.FETCHING
        self._send(self._request(session, version), version, partial(self._fetched, session))
        return True

    def _build(self, now: float) -> SessionRequest | None:
        """The session's next request; None where it would have nothing to ask for, nor anything to forget.

        It costs what has changed, not what is fetched, as long as no replication is throttled.
        """
        session = self._session
        is_over_quota = self._quota.delay_s() > 0
        looks_at_all = session.needs_all or is_over_quota or now >= self._look_at_all_s
        news = self._news(self._states if looks_at_all else self._changed, now, is_over_quota=is_over_quota)
        wanted = {key: one for key, one in news.items() if one is not None}
        self._changed = {key: None for key in news if key not in wanted and key in self._states}
        if not wanted and (session.is_full or not session.partitions):
            return None
        if not looks_at_all:
            return session.build_next(news)
        self._look_at_all_s = now + LOOK_AT_ALL_S
        return session.build(wanted)

    def _news(
        self, keys: Iterable[TopicPartition], now: float, *, is_over_quota: bool
    ) -> dict[TopicPartition, WantedPartition | None]:
        """What is wanted of partitions; None for one that is not to be fetched now."""
        max_bytes = self._config.partition_max_bytes
        news: dict[TopicPartition, WantedPartition | None] = {}
        for key in keys:
            state = self._states.get(key)
            if (
                state is None
                or not state.is_ready(now)
                or (is_over_quota and not state.is_in_sync and self._quota.is_throttled(key))
            ):
                news[key] = None
                continue
            news[key] = WantedPartition(
                state.log.topic_id,
                state.fetch_offset,
                state.log.log_start_offset,
                max_bytes,
                state.leader_epoch,
                state.last_fetched_epoch,
            )
        return news

    def _request(self, session: SessionRequest, version: int) -> FetchRequest:
        config = self._config
        request = FetchRequest(
            max_wait_ms=config.wait_max_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.session_epoch,
            topics=session.topics,
            forgotten_topics_data=session.forgotten,
        )
        if version < FIRST_VERSION_WITH_REPLICA_STATE:
            request.replica_id = config.node_id
        else:
            request.replica_state = FetchRequest.ReplicaState(
                replica_id=config.node_id, replica_epoch=config.broker_epoch()
            )
        return request

    def _send(
        self, request: Message, version: int, respond: Callable[[Message | NodeClientError], None]
    ) -> None:
        if self._channel is None:
            self._channel = self._connect(self.address)
        self.request_count += 1
        self.request_rate.mark()
        pending = self._channel.send(request, version=version, timeout_ms=self._config.request_timeout_ms)
        pending.add_done_callback(respond)

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _fetched(self, asked: SessionRequest, result: Message | NodeClientError) -> None:
        if self.step is FetcherStep.CLOSED:
            return
        if not isinstance(result, FetchResponse):
            assert not isinstance(result, Message), "the channel decodes the response of the request"
            self._failed_to_ask(asked.partitions, result)
        elif self._session.handle_response(result):
            self._session_restarts = 0
            self._take_work(asked, result)
        else:
            self._refused(asked, result)

    def _failed_to_ask(self, keys: Iterable[TopicPartition], error: NodeClientError) -> None:
        """No response: the connection and the session begin again, after the delay."""
        _rate_limit.warning(logger, self.client_id, "%s gets no response: %s", self.client_id, error.reason)
        self._session.handle_error()
        self._disconnect()
        self._delay(keys)
        self._go_on()

    def _refused(self, asked: SessionRequest, response: FetchResponse) -> None:
        """The session begins again: at once, where the leader has only evicted it, but not twice in a row."""
        self._session_restarts += 1
        code = response.error_code
        if code not in _RESTARTED_SESSION or self._session_restarts > 1:
            _rate_limit.warning(
                logger,
                self.client_id,
                "%s cannot use a response to fetch: error %d, session %d",
                self.client_id,
                code,
                response.session_id,
            )
            self._delay(asked.partitions)
        self._go_on()

    def _delay(self, keys: Iterable[TopicPartition]) -> None:
        until = self._timer.time() + self._config.backoff_ms / 1000
        for key in keys:
            state = self._states.get(key)
            if state is not None and state.delayed_until < until:
                state.delayed_until = until
                self._changed[key] = None

    # ---- applying a response

    def _take_work(self, asked: SessionRequest, response: FetchResponse) -> None:
        for key, data in self._session.data(response):
            wanted = asked.partitions[key]
            self._work.append(FetchedPartition(key, data, wanted.fetch_offset, wanted.current_leader_epoch))
            self._changed[key] = None
        self.step = FetcherStep.APPLYING
        self._apply_slice()

    def _apply_slice(self) -> None:
        """Applies up to SLICE_BYTES of records, then lets the loop run."""
        self._turn = None
        if self.step is not FetcherStep.APPLYING:
            return
        taken, began = 0, self._timer.time()
        while self._work:
            work = self._work[0]
            taken += self._apply(work)
            if work.is_done:
                self._work.popleft()
            if taken >= SLICE_BYTES or self._timer.time() - began >= SLICE_S:
                self._turn = self._timer.call_at(self._timer.time(), self._apply_slice)
                return
        self._go_on()

    def _apply(self, work: FetchedPartition) -> int:
        """Applies one slice of what came for a partition; returns its bytes."""
        state = self._states.get(work.key)
        if (
            state is None
            or state.fetch_offset != work.fetch_offset
            or state.leader_epoch != work.leader_epoch
            or not state.is_ready(self._timer.time())
        ):
            work.is_done = True
            self._session.hear_again(work.key)
            return 0
        data = work.data
        if data.error_code != ErrorCode.NONE:
            work.is_done = True
            self._apply_error(state, data.error_code, work.leader_epoch)
            return 0
        diverging = data.diverging_epoch
        if diverging.epoch != NO_LEADER_EPOCH:
            work.is_done = True
            self._session.hear_again(work.key)
            leader = EpochEndOffset(diverging.epoch, diverging.end_offset)
            self._follow_divergence(state, leader, data.log_start_offset)
            return 0
        return self._apply_records(state, work)

    def _apply_records(self, state: PartitionFetchState, work: FetchedPartition) -> int:
        before = work.left_bytes
        try:
            self._append(state, work)
        except UnexpectedAppendOffsetError as error:
            if not self._begins_inside_batch(state, work, error):
                work.is_done = True
                self._fail(state, error)
            else:
                self._restart_log(state, work, error.first_offset)
        except (CorruptRecordError, InvalidRecordError, *TRANSIENT_ERRORS) as error:
            work.is_done = True
            _rate_limit.warning(logger, state.key, "%s cannot append what it got: %s", state, error)
            self._delay([state.key])
        except Exception as error:
            work.is_done = True
            self._fail(state, error)
        return before - work.left_bytes

    def _append(self, state: PartitionFetchState, work: FetchedPartition) -> None:
        log, data = state.log, work.data
        assert log.log_end_offset == work.fetch_offset, (
            f"{state} ends at {log.log_end_offset}: somebody else has changed it"
        )
        records = work.peek()
        size = len(records)
        if size:
            info = log.append_as_follower(records, work.leader_epoch)
            self._appended(state, info, size)
            work.consumed(size, log.log_end_offset)
        elif work.left_bytes and work.is_untouched:
            self._delay([state.key])  # all of it is of a later epoch, of which the metadata will say more
        self._follow_offsets(log, data)
        state.lag = max(0, data.high_watermark - state.fetch_offset)
        work.is_done = not size or not work.peek()

    def _appended(self, state: PartitionFetchState, info: LogAppendInfo, size: int) -> None:
        log = state.log
        state.fetch_offset = log.log_end_offset
        state.last_fetched_epoch = log.latest_epoch
        self._states[state.key] = self._states.pop(state.key)  # the last in the order of the next full fetch
        self.byte_count += size
        if self._quota.is_throttled(state.key):
            self._quota.record(size)  # in sync or not, so that all replication together stays below the rate
        self._events.follower_appended(log, info, size)

    def _follow_offsets(self, log: FollowedLog, data: FetchResponse.PartitionData) -> None:
        moved = log.update_follower_high_watermark(data.high_watermark)
        start = min(data.log_start_offset, log.high_watermark)
        if start > log.log_start_offset:
            moved |= log.maybe_increment_log_start_offset(start)
        if moved:
            self._events.follower_offsets_moved(log)

    def _apply_error(self, state: PartitionFetchState, code: int, leader_epoch: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            state.phase = FetchPhase.RESETTING
            state.leader_end_offset = None
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._fence(state, leader_epoch)
        elif code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._fail(
                state,
                ApiError(
                    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                    "the leader has moved its older records to tiered storage, which this broker cannot read: "
                    "set remote.storage.enable=false for the topic, or move this replica to another broker",
                ),
            )
        else:
            if code not in _PASSING:
                _rate_limit.warning(logger, state.key, "%s is delayed: error %d from the leader", state, code)
            self._delay([state.key])

    def _fence(self, state: PartitionFetchState, leader_epoch: int) -> None:
        """The leader knows a newer epoch: the metadata are about to say it, unless they have."""
        if state.leader_epoch != leader_epoch:
            self._delay([state.key])
            return
        logger.info("%s is fenced and waits for a newer leader epoch", state)
        self._give_up(state)

    def _fail(self, state: PartitionFetchState, error: Exception) -> None:
        logger.error("%s has failed: %s", state, error, exc_info=not isinstance(error, MAPPED_ERRORS))
        self._give_up(state)
        self._events.follower_failed(state.log, error)

    def _give_up(self, state: PartitionFetchState) -> None:
        if self._states.get(state.key) is state:
            del self._states[state.key]
            self._changed[state.key] = None
            self._failed.add(state.key)

    # ---- truncation

    def _follow_divergence(
        self, state: PartitionFetchState, leader: EpochEndOffset, leader_log_start: int
    ) -> None:
        log = state.log
        offset = truncation_offset(log, leader, state.initial_offset)
        if log.log_start_offset < leader_log_start >= offset:
            self._truncate_fully(state, leader_log_start)
            return
        if offset < log.high_watermark:
            logger.warning(
                "%s truncates to %d, below its high watermark %d: the leader's epoch %d ends at %d",
                state,
                offset,
                log.high_watermark,
                *leader,
            )
        self._truncate(state, offset)

    def _truncate(self, state: PartitionFetchState, offset: int) -> None:
        self._begin_truncation(state)
        state.log.truncate_to(offset).add_done_callback(partial(self._truncation_ended, state))

    def _truncate_fully(self, state: PartitionFetchState, offset: int) -> None:
        self._begin_truncation(state)
        state.log.truncate_fully_and_start_at(offset).add_done_callback(
            partial(self._truncation_ended, state)
        )

    def _begin_truncation(self, state: PartitionFetchState) -> None:
        state.phase = FetchPhase.TRUNCATING
        self._changed[state.key] = None

    def _truncation_ended(self, state: PartitionFetchState, error: Exception | None) -> None:
        """May come when the partition is fetched no more, or by another fetcher."""
        if error is None:
            state.resume()
        state.truncated(state, error)

    def _truncated(self, state: PartitionFetchState, error: Exception | None) -> None:
        if self._states.get(state.key) is not state:
            return
        if error is not None:
            self._fail(state, error)
        self.wake()

    @staticmethod
    def _begins_inside_batch(
        state: PartitionFetchState, work: FetchedPartition, error: UnexpectedAppendOffsetError
    ) -> bool:
        """Whether the leader's log, or this one while it is empty, begins inside the batch that came.

        Records were deleted up to there, so that nothing before it counts. Kafka knows the second case only, and gives
        the partition up in the first, in which a divergence was cut at the leader's log start, inside the batch.
        """
        log = state.log
        end = log.log_end_offset
        starts_at_end = end in (log.log_start_offset, work.data.log_start_offset)
        return starts_at_end and error.first_offset < end <= error.last_offset

    def _restart_log(self, state: PartitionFetchState, work: FetchedPartition, offset: int) -> None:
        """Empties the log to begin at `offset`, and then appends what came: the leader would not send it again."""
        records = FetchedPartition(work.key, work.data, offset, work.leader_epoch)
        work.is_done = True

        def restarted(of: PartitionFetchState, error: Exception | None) -> None:
            of.truncated = self._truncated
            if error is None and self._states.get(of.key) is of:
                while not records.is_done:
                    self._apply(records)
            self._truncated(of, error)

        state.truncated = restarted
        self._truncate_fully(state, offset)

    # ---- the leader's offsets

    def _ask_for_offsets(self, resetting: list[PartitionFetchState]) -> None:
        timestamp, states = next_question(resetting)
        version = list_offsets_version(self._config.metadata_version())
        self.step = FetcherStep.ASKING
        request = offsets_request(states, timestamp, self._config.node_id)
        self._send(request, version, partial(self._offsets_answered, states, timestamp))

    def _offsets_answered(
        self, asked: list[PartitionFetchState], timestamp: int, result: Message | NodeClientError
    ) -> None:
        if self.step is FetcherStep.CLOSED:
            return
        if not isinstance(result, ListOffsetsResponse):
            assert not isinstance(result, Message), "the channel decodes the response of the request"
            self._failed_to_ask([state.key for state in asked], result)
            return
        found = dict(answers(result))
        for state in asked:
            if self._states.get(state.key) is not state or state.phase is not FetchPhase.RESETTING:
                continue
            answer = found.get(state.key)
            if answer is None or answer.error_code != ErrorCode.NONE:
                self._offset_refused(
                    state, ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error_code
                )
            elif timestamp == LATEST:
                self._take_latest(state, answer.offset)
            else:
                self._take_earliest(state, answer.offset)
        self._go_on()

    def _offset_refused(self, state: PartitionFetchState, code: int) -> None:
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self._fence(state, state.leader_epoch)
            return
        _rate_limit.warning(logger, state.key, "the leader gives no offsets of %s: error %d", state, code)
        self._delay([state.key])

    def _take_latest(self, state: PartitionFetchState, leader_end: int) -> None:
        log = state.log
        if leader_end < log.log_end_offset:
            logger.warning("%s truncates to %d, where its leader ends", state, leader_end)
            state.lag = 0
            self._truncate(state, leader_end)
        else:
            state.leader_end_offset = leader_end

    def _take_earliest(self, state: PartitionFetchState, leader_start: int) -> None:
        leader_end = state.leader_end_offset
        assert leader_end is not None, "asked for first"
        end = state.log.log_end_offset
        state.lag = max(0, leader_end - max(end, leader_start))
        if leader_start > end:
            logger.warning("%s begins anew at %d, where its leader begins", state, leader_start)
            self._truncate_fully(state, leader_start)
            return
        if end == state.fetch_offset:
            self._delay([state.key])  # the leader should have the very offset that it refused
        state.resume()
