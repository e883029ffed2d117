"""Probes: counters of the broker's work, plain numbers on plain objects, so that counting costs next to nothing.

Each part of the broker gets its probe and calls its methods; broker.metrics turns the numbers into Prometheus families
for a scrape. Nothing here locks: the event loop writes, and copies what a scrape reads.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.protocol.errors import ErrorCode
from barnabas.storage.errors import InvalidMagicError, InvalidOffsetOrSequenceError, MissingKeyError

WINDOW_SAMPLES = 1024
KEPT_TIMES: Final = 1024
RATE_WINDOW_S = 30
PAUSE_WINDOW_S: Final = 60

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_NOT_FAILURES = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR}
)
"""Errors that Kafka does not count as failed produce requests."""


class Rate:
    """How fast a total grows, over the last RATE_WINDOW_S seconds."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def sample(self, now: float, total: float) -> None:
        """Notes the total, about once a second."""
        self._samples.append((now, total))
        while now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (since, before), (until, after) = self._samples[0], self._samples[-1]
        return (after - before) / (until - since) if until > since else 0.0


class RecentTimes:
    """The latest KEPT_TIMES durations, in ms, and the count of all."""

    __slots__ = ("_kept", "count")

    def __init__(self) -> None:
        self.count = 0
        self._kept = array("d")

    def add(self, seconds: float) -> None:
        if self.count < KEPT_TIMES:
            self._kept.append(seconds * 1000)
        else:
            self._kept[self.count % KEPT_TIMES] = seconds * 1000
        self.count += 1

    def values(self) -> array[float]:
        """A copy, in no particular order."""
        return self._kept[:]


class LongestPause:
    """The longest of the pauses that were noted in the last PAUSE_WINDOW_S to twice that, in seconds.

    The time is kept in two windows, each with its longest pause: the running one and the one before.
    """

    __slots__ = ("_before", "_began", "_running")

    def __init__(self) -> None:
        self._began = 0.0
        self._before = 0.0
        self._running = 0.0

    def note(self, now: float, pause_s: float) -> None:
        """Notes a pause that ended at `now`; called about once a second or more often, with pauses of 0 too."""
        age = now - self._began
        if age >= PAUSE_WINDOW_S:
            self._before = self._running if age < 2 * PAUSE_WINDOW_S else 0.0
            self._running = 0.0
            self._began = now
        self._running = max(self._running, pause_s)

    @property
    def seconds(self) -> float:
        return max(self._before, self._running)


class ListenerProbe:
    """Connections, bytes and authentications of one listener."""

    __slots__ = (
        "_rates",
        "bytes_in",
        "bytes_out",
        "connections_by_cipher",
        "connections_closed",
        "connections_created",
        "expired_connections_killed",
        "failed_authentications",
        "failed_reauthentications",
        "name",
        "reauthentication_times",
        "successful_authentications",
        "successful_authentications_no_reauth",
        "successful_reauthentications",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.successful_authentications = 0
        self.failed_authentications = 0
        self.successful_reauthentications = 0
        self.failed_reauthentications = 0
        self.successful_authentications_no_reauth = 0
        """Those of clients that cannot authenticate again on the same connection."""
        self.expired_connections_killed = 0
        """Connections that were closed because they were used after the end of their session."""
        self.reauthentication_times = RecentTimes()
        self.connections_by_cipher: dict[tuple[str, str], int] = {}
        """Open connections over TLS by cipher suite and version."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_created = 0
        self.connections_closed = 0
        self._rates = {what: Rate() for what in self._totals()}

    @property
    def connection_count(self) -> int:
        return self.connections_created - self.connections_closed

    def sample(self, now: float) -> None:
        for what, total in self._totals().items():
            self._rates[what].sample(now, total)

    def per_second(self, what: str) -> float:
        """The rate of one of `_totals`."""
        return self._rates[what].per_second

    def _totals(self) -> dict[str, int]:
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "connections_created": self.connections_created,
            "connections_closed": self.connections_closed,
            "successful_authentications": self.successful_authentications,
            "failed_authentications": self.failed_authentications,
            "successful_reauthentications": self.successful_reauthentications,
            "failed_reauthentications": self.failed_reauthentications,
        }


class SocketServerProbe:
    """The listeners' probes, and how busy the event loop's thread is.

    The thread's CPU time shows that without a clock read for every event; it does not include waits for a disk.
    """

    def __init__(self, thread_time: Callable[[], float] = time.thread_time) -> None:
        self.listeners: dict[str, ListenerProbe] = {}
        self.pause = LongestPause()
        """How long the event loop could not run anything (network.loop_pulse)."""
        self._thread_time = thread_time
        self._busy = Rate()

    def listener(self, name: str) -> ListenerProbe:
        probe = self.listeners.get(name)
        if probe is None:
            probe = self.listeners[name] = ListenerProbe(name)
        return probe

    def sample(self, now: float) -> None:
        """Notes every total; called once a second, on the event loop."""
        self._busy.sample(now, self._thread_time())
        for probe in self.listeners.values():
            probe.sample(now)

    @property
    def idle_ratio(self) -> float:
        """The part of the last RATE_WINDOW_S seconds in which the event loop had nothing to do, 0 to 1."""
        return max(0.0, min(1.0, 1.0 - self._busy.per_second))


class ApiTimes:
    """Requests of one API: how many in each version, and how long they took.

    `local` is the time in the handler, `remote` what it then waited for (records, replicas, the disk). Both
    keep the last WINDOW_SAMPLES values, where Kafka's histograms keep a sample that favours the last five
    minutes.
    """

    __slots__ = ("count", "errors", "local", "remote", "versions")

    def __init__(self) -> None:
        self.count = 0
        self.versions: dict[int, int] = {}
        self.errors: dict[str, int] = {}
        self.local = array("d", bytes(8 * WINDOW_SAMPLES))
        self.remote = array("d", bytes(8 * WINDOW_SAMPLES))

    def record(self, version: int, local_s: float, remote_s: float) -> None:
        """Records the times of a request that was answered."""
        try:
            self.versions[version] += 1
        except KeyError:
            self.versions[version] = 1
        at = self.count % WINDOW_SAMPLES
        self.local[at] = local_s
        self.remote[at] = remote_s
        self.count += 1

    def windows(self) -> tuple[array[float], array[float]]:
        """Copies of the local and the remote times that are kept, in seconds."""
        kept = min(self.count, WINDOW_SAMPLES)
        return self.local[:kept], self.remote[:kept]


FETCH_FOLLOWER: Final = "FETCH_FOLLOWER"
"""The fetches of followers, which are counted apart; FETCH are those of consumers."""


class RequestProbe:
    """Requests by API; the names are ApiKey's, and FETCH_FOLLOWER."""

    __slots__ = ("apis", "refused")

    def __init__(self) -> None:
        self.apis: dict[str, ApiTimes] = {}
        self.refused: dict[str, int] = {}

    def times(self, api: str) -> ApiTimes:
        """The record of an API's requests, which is added to `apis`."""
        times = self.apis.get(api)
        if times is None:
            times = self.apis[api] = ApiTimes()
        return times

    def request_failed(self, api: str, error: str, count: int = 1) -> None:
        """`count` parts of a response have the error code of that name."""
        errors = self.times(api).errors
        errors[error] = errors.get(error, 0) + count

    def request_refused(self, reason: str) -> None:
        """A request of an API or version that is not served."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


_TOPIC_COUNTERS: Final = (
    "bytes_in",
    "bytes_out",
    "bytes_rejected",
    "failed_fetch_requests",
    "failed_produce_requests",
    "invalid_magic_number_records",
    "invalid_message_crc_records",
    "invalid_offset_or_sequence_records",
    "messages_in",
    "no_key_compacted_topic_records",
    "produce_message_conversions",
    "total_fetch_requests",
    "total_produce_requests",
)


class TopicCounters:
    """The counters of one topic; sizes in bytes."""

    __slots__ = _TOPIC_COUNTERS

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.failed_fetch_requests = 0
        self.failed_produce_requests = 0
        self.invalid_magic_number_records = 0
        self.invalid_message_crc_records = 0
        self.invalid_offset_or_sequence_records = 0
        self.no_key_compacted_topic_records = 0
        self.produce_message_conversions = 0
        self.total_fetch_requests = 0
        self.total_produce_requests = 0

    def produced(self, records: int, size: int) -> None:
        """Records were appended to a partition of the topic."""
        self.total_produce_requests += 1
        self.messages_in += records
        self.bytes_in += size

    def add(self, other: TopicCounters) -> None:
        """Adds the counters of another topic."""
        for name in _TOPIC_COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicTraffic(Protocol):
    """Counts the appends of one topic; a partition keeps a reference to it."""

    def produced(self, records: int, size: int) -> None: ...


class TopicProbe(Protocol):
    """Counts traffic by topic, in records and bytes; a topic is known from its first success until it is deleted."""

    def topic(self, topic: str) -> TopicTraffic: ...
    def produce_failed(self, topic: str, code: ErrorCode, size: int) -> None: ...
    def batch_invalid(self, topic: str, error: Exception) -> None: ...
    def converted(self, topic: str, records: int) -> None: ...
    def fetched(self, topic: str, size: int) -> None: ...
    def fetched_nothing(self, topic: str, partitions: int) -> None: ...
    def fetch_failed(self, topic: str) -> None: ...
    def topic_deleted(self, topic: str) -> None: ...


class BrokerTopicProbe:
    """Traffic by topic (`BrokerTopicStats`). A request counts once for each partition that it names, as in Kafka.

    Topics appear with their first success; requests for topics that do not exist count only in the sum.
    """

    __slots__ = ("_others", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounters] = {}
        self._others = TopicCounters()  # of deleted topics, and failures for unknown ones

    def topic(self, topic: str) -> TopicCounters:
        """The topic's own counters; a caller may keep them until the topic is deleted."""
        return self.topics.get(topic) or self._add(topic)

    def produce_failed(self, topic: str, code: ErrorCode, size: int) -> None:
        counters = self.topics.get(topic, self._others)
        counters.total_produce_requests += 1
        if code in _TOO_LARGE:
            counters.bytes_rejected += size
        elif code is ErrorCode.CORRUPT_MESSAGE:
            counters.invalid_message_crc_records += 1
        elif code not in _NOT_FAILURES:
            counters.failed_produce_requests += 1

    def batch_invalid(self, topic: str, error: Exception) -> None:
        """Counts the reason for which a batch was rejected."""
        counters = self.topics.get(topic, self._others)
        if isinstance(error, InvalidMagicError):
            counters.invalid_magic_number_records += 1
        elif isinstance(error, InvalidOffsetOrSequenceError):
            counters.invalid_offset_or_sequence_records += 1
        elif isinstance(error, MissingKeyError):
            counters.no_key_compacted_topic_records += len(error.record_errors)

    def converted(self, topic: str, records: int) -> None:
        """Records were appended in batches that had to be rebuilt."""
        (self.topics.get(topic) or self._add(topic)).produce_message_conversions += records

    def fetched(self, topic: str, size: int) -> None:
        counters = self.topics.get(topic) or self._add(topic)
        counters.total_fetch_requests += 1
        counters.bytes_out += size

    def fetched_nothing(self, topic: str, partitions: int) -> None:
        """`partitions` of the topic were fetched that had nothing new."""
        counters = self.topics.get(topic) or self._add(topic)
        counters.total_fetch_requests += partitions

    def fetch_failed(self, topic: str) -> None:
        counters = self.topics.get(topic, self._others)
        counters.total_fetch_requests += 1
        counters.failed_fetch_requests += 1

    def topic_deleted(self, topic: str) -> None:
        """The topic's own series end; the sum over all topics keeps what it had."""
        counters = self.topics.pop(topic, None)
        if counters is not None:
            self._others.add(counters)

    def all_topics(self) -> TopicCounters:
        """The sum over all topics, deleted ones included."""
        total = TopicCounters()
        total.add(self._others)
        for counters in self.topics.values():
            total.add(counters)
        return total

    def _add(self, topic: str) -> TopicCounters:
        counters = self.topics[topic] = TopicCounters()
        return counters
