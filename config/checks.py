"""Rules between the values of several keys, as Apache Kafka checks them when it starts.

Source: KafkaConfig.validateValues, GroupCoordinatorConfig, ShareGroupConfig. The rules of listeners are in
listeners.py.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from barnabas.config.catalogue import barnabas, groups, http, log, network, replication, server, share
from barnabas.config.http import http_errors, is_open, knows_its_clients
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.member import role_errors

T = TypeVar("T")

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
MEBIBYTE = 1 << 20


class Values(Protocol):
    """The part of a configuration that checks read."""

    def __getitem__(self, key: ConfigKey[T]) -> T: ...

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """True when any layer sets the key."""


# Each row: the least that a key may be, the key, the most; they also bound what a single group sets for itself.
BOUNDED: tuple[tuple[ConfigKey[int] | None, ConfigKey[int], ConfigKey[int]], ...] = (
    (
        groups.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        groups.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    (
        groups.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        groups.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        groups.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        groups.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
        groups.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    (
        share.GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS,
        share.GROUP_SHARE_HEARTBEAT_INTERVAL_MS,
        share.GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    (
        share.GROUP_SHARE_MIN_SESSION_TIMEOUT_MS,
        share.GROUP_SHARE_SESSION_TIMEOUT_MS,
        share.GROUP_SHARE_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        share.GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS,
        share.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS,
        share.GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    (
        share.GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS,
        share.GROUP_SHARE_RECORD_LOCK_DURATION_MS,
        share.GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS,
    ),
    (
        share.GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT,
        share.GROUP_SHARE_DELIVERY_COUNT_LIMIT,
        share.GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT,
    ),
    (
        share.GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS,
        share.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS,
        share.GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS,
    ),
    (
        groups.GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS,
        groups.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS,
        groups.GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    (
        groups.GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS,
        groups.GROUP_STREAMS_SESSION_TIMEOUT_MS,
        groups.GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        groups.GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS,
        groups.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS,
        groups.GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    (None, groups.GROUP_STREAMS_NUM_STANDBY_REPLICAS, groups.GROUP_STREAMS_MAX_STANDBY_REPLICAS),
)

# Each row: the first must not be greater than the second.
AT_MOST: tuple[tuple[ConfigKey[int], ConfigKey[int]], ...] = (
    (replication.REPLICA_FETCH_WAIT_MAX_MS, replication.REPLICA_SOCKET_TIMEOUT_MS),
    (replication.REPLICA_FETCH_WAIT_MAX_MS, replication.REPLICA_LAG_TIME_MAX_MS),
    *((low, key) for low, key, _ in BOUNDED if low is not None),
    *((key, high) for _, key, high in BOUNDED),
)

# Each row: the first must be smaller than the second.
LESS_THAN: tuple[tuple[ConfigKey[int], ConfigKey[int]], ...] = (
    (groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS),
    (groups.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS, groups.GROUP_STREAMS_SESSION_TIMEOUT_MS),
    (share.GROUP_SHARE_HEARTBEAT_INTERVAL_MS, share.GROUP_SHARE_SESSION_TIMEOUT_MS),
)

COMPRESSION_CODECS = (
    groups.OFFSETS_TOPIC_COMPRESSION_CODEC,
    share.SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC,
)


class UnreadableValueError(Exception):
    """A check reads a key whose value is invalid by itself; the check is skipped."""


def relation_errors(values: Values) -> Iterator[ConfigError]:
    """Every rule that the values break, each as an error about the key that is most likely wrong."""
    for small, great in AT_MOST:
        yield from _unless_unreadable(_at_most(values, small, great))
    for small, great in LESS_THAN:
        yield from _unless_unreadable(_less_than(values, small, great))
    for check in CHECKS:
        yield from _unless_unreadable(check(values))


def _unless_unreadable(errors: Iterator[ConfigError]) -> list[ConfigError]:
    try:
        return list(errors)
    except UnreadableValueError:
        return []


def _at_most(values: Values, small: ConfigKey[int], great: ConfigKey[int]) -> Iterator[ConfigError]:
    if values[small] > values[great]:
        yield _culprit(values, small, great, ("at most", "at least"))


def _less_than(values: Values, small: ConfigKey[int], great: ConfigKey[int]) -> Iterator[ConfigError]:
    if values[small] >= values[great]:
        yield _culprit(values, small, great, ("less than", "more than"))


def _culprit(
    values: Values, small: ConfigKey[int], great: ConfigKey[int], words: tuple[str, str]
) -> ConfigError:
    """Chooses the key that is set rather than the one that has its default."""
    if values.is_set(small) or not values.is_set(great):
        return small.error(str(values[small]), f"{words[0]} {great.name}, which is {values[great]}")
    return great.error(str(values[great]), f"{words[1]} {small.name}, which is {values[small]}")


def _identity(values: Values) -> Iterator[ConfigError]:
    node, broker = values[server.NODE_ID], values[server.BROKER_ID]
    if node is not None and broker >= 0 and node != broker:
        yield server.BROKER_ID.error(
            str(broker), f"equal to {server.NODE_ID.name}, which is {node}, or left out"
        )


def _times(values: Values) -> Iterator[ConfigError]:
    roll, jitter = values[log.LOG_ROLL_MS], values[log.LOG_ROLL_JITTER_MS]
    if roll is not None and roll < 1:
        yield log.LOG_ROLL_MS.error(str(roll), "at least 1")
    if jitter is not None and jitter < 0:
        yield log.LOG_ROLL_JITTER_MS.error(str(jitter), "at least 0")
    for key in (log.LOG_RETENTION_MS, log.LOG_RETENTION_MINUTES, log.LOG_RETENTION_HOURS):
        value = values[key]  # type: ignore[misc]
        if value is not None:
            if value == 0:
                yield key.error("0", "at least 1, or -1 to keep records for ever")
            break


def _network(values: Values) -> Iterator[ConfigError]:
    queued, largest = values[network.QUEUED_MAX_REQUEST_BYTES], values[network.SOCKET_REQUEST_MAX_BYTES]
    if 0 < queued < largest:
        yield network.QUEUED_MAX_REQUEST_BYTES.error(
            str(queued), f"at least {network.SOCKET_REQUEST_MAX_BYTES.name}, which is {largest}, or -1"
        )
    delay, idle = (
        values[network.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        values[network.CONNECTIONS_MAX_IDLE_MS],
    )
    if 0 < idle <= delay:
        yield network.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS.error(
            str(delay), f"less than {network.CONNECTIONS_MAX_IDLE_MS.name}, which is {idle}"
        )
    overrides = values[network.MAX_CONNECTIONS_PER_IP_OVERRIDES]
    try:
        parse_connection_overrides(overrides)
    except ValueError:
        yield network.MAX_CONNECTIONS_PER_IP_OVERRIDES.error(overrides, "host:count, comma-separated")
    if values[network.MAX_CONNECTIONS_PER_IP] == 0 and not overrides.strip():
        yield network.MAX_CONNECTIONS_PER_IP.error(
            "0", f"at least 1, or {network.MAX_CONNECTIONS_PER_IP_OVERRIDES.name} must allow some address"
        )


def _logs(values: Values) -> Iterator[ConfigError]:
    buffer, cleaners = values[log.LOG_CLEANER_DEDUPE_BUFFER_SIZE], values[log.LOG_CLEANER_THREADS]
    if cleaners and buffer // cleaners <= MEBIBYTE:
        yield log.LOG_CLEANER_DEDUPE_BUFFER_SIZE.error(
            str(buffer), f"more than {MEBIBYTE} for each cleaner thread"
        )
    directories = values[log.LOG_DIRS]
    if directories is None:
        directories = values[log.LOG_DIR]
    cordoned = values[log.CORDONED_LOG_DIRS]
    if cordoned != ("*",) and not set(cordoned).issubset(directories):
        yield log.CORDONED_LOG_DIRS.error(",".join(cordoned), "among the log directories, or * alone")
    for key in COMPRESSION_CODECS:
        if values[key] not in range(5):
            yield key.error(str(values[key]), "from 0 to 4")


def _security(values: Values) -> Iterator[ConfigError]:
    by_name, by_protocol = replication.INTER_BROKER_LISTENER_NAME, replication.SECURITY_INTER_BROKER_PROTOCOL
    if values.is_set(by_name) and values.is_set(by_protocol):
        yield by_protocol.error(values[by_protocol], f"left out, as {by_name.name} is set")
    assignors = values[share.GROUP_SHARE_ASSIGNORS]
    if len(assignors) != 1:
        yield share.GROUP_SHARE_ASSIGNORS.error(",".join(assignors), "a single assignor")


def _http_port(values: Values) -> Iterator[ConfigError]:
    """Where clients are restricted, other hosts reach the HTTP port only if it knows its clients, or that is wanted."""
    yield from http_errors(values)
    host, key = values[barnabas.BARNABAS_HTTP_HOST], barnabas.BARNABAS_HTTP_WITHOUT_LOGIN_ALLOW
    if not is_open(values) or not values[server.AUTHORIZER_CLASS_NAME] or values[key]:
        return
    if not knows_its_clients(values) and not is_loopback(host):
        yield barnabas.BARNABAS_HTTP_HOST.error(
            host,
            f"localhost, as {server.AUTHORIZER_CLASS_NAME.name} restricts what clients may do and this port asks for "
            f"no login; or set {http.BARNABAS_HTTP_SECURITY_PROTOCOL.name}=SASL_SSL and "
            f"{http.BARNABAS_HTTP_SASL_JAAS_CONFIG.name}, or {key.name}=true",
        )


def is_loopback(host: str) -> bool:
    """Whether only this host reaches what is bound to an address. A name other than localhost may be any address."""
    if host == "localhost":
        return True
    from ipaddress import ip_address  # seldom needed

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _groups(values: Values) -> Iterator[ConfigError]:
    assignors = values[groups.GROUP_CONSUMER_ASSIGNORS]
    unknown = [name for name in assignors if name not in groups.CONSUMER_ASSIGNORS]
    if unknown:
        known = ", ".join(groups.CONSUMER_ASSIGNORS)
        yield groups.GROUP_CONSUMER_ASSIGNORS.error(",".join(assignors), f"of {known}: there is no JVM here")


CHECKS: tuple[Callable[[Values], Iterator[ConfigError]], ...] = (
    _identity,
    _times,
    _network,
    _logs,
    _security,
    _http_port,
    _groups,
    role_errors,
)


def parse_connection_overrides(text: str) -> dict[str, int]:
    """max.connections.per.ip.overrides by host; raises ValueError when it is not host:count,..."""
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = entry.rpartition(":")
        if not (colon and host and count.strip().isdecimal()):
            raise ValueError(entry)
        limits[host.strip()] = int(count)
    return limits
