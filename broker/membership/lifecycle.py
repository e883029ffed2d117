"""BrokerLifecycleManager: registers this broker with the cluster's controller, and keeps it alive with heartbeats.

    state                       | on a good response to a heartbeat                        | next heartbeat in
    ----------------------------+----------------------------------------------------------+------------------------
    STARTING                    | the controller says caught up -> RECOVERY                | 10 ms
    RECOVERY                    | it says unfenced -> RUNNING                              | the interval
    RUNNING                     | fenced again: the next heartbeat unfences                | the interval
    PENDING_CONTROLLED_SHUTDOWN | it says shut down -> SHUTTING_DOWN, the last heartbeat   | 50 ms once, then the
                                |                                                          | interval
                                | no good response for a session -> SHUTTING_DOWN          | the last heartbeat

One request is under way at a time. What must be told at once (ready to be unfenced, a failed directory, a shutdown) is
told at once, or right after the request under way, but never right after a failure: that would flood a controller which
has trouble. After a failure the next request follows in an interval.
A registration that was accepted once may be sent again, in the name of the same incarnation: the epoch stays.
Source: kafka.server.BrokerLifecycleManager, org.apache.kafka.metadata.BrokerState.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, Submit
from barnabas.broker.metadata.cluster import ListenerEndpoint
from barnabas.broker.metadata.versions import LevelRange
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import LOG_DIR_FAILURE_TIMEOUT_MS
from barnabas.config.catalogue.server import (
    BROKER_HEARTBEAT_INTERVAL_MS,
    BROKER_SESSION_TIMEOUT_MS,
    INITIAL_BROKER_REGISTRATION_TIMEOUT_MS,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid, uuid_to_string

logger = logging.getLogger("barnabas.membership")

STARTING_INTERVAL_MS: Final = 10
"""While the controller waits for this broker's metadata: a start should not take an interval longer than it has to."""
FIRST_SHUTDOWN_INTERVAL_MS: Final = 50
NO_EPOCH: Final = -1

_ADVICE: Final[Mapping[int, str]] = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "a broker with this node.id is registered and not fenced: one that was "
    "killed, or stopped a moment ago, is fenced after the controller's broker.session.timeout.ms at the latest",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has finalized a feature at a level that this broker does not support: "
    "compare `kafka-features.sh describe` with",
    ErrorCode.INVALID_REGISTRATION: "the controller's log says what is wrong with it",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the log directories belong to another cluster:",
}


class BrokerState(IntEnum):
    """The values of the gauge BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class LifecycleSettings(NamedTuple):
    """Times in ms."""

    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    initial_registration_timeout_ms: int = 60_000
    log_dir_failure_timeout_ms: int = 30_000

    @classmethod
    def of(cls, config: BrokerConfig) -> LifecycleSettings:
        return cls(
            config[BROKER_HEARTBEAT_INTERVAL_MS],
            config[BROKER_SESSION_TIMEOUT_MS],
            config[INITIAL_BROKER_REGISTRATION_TIMEOUT_MS],
            config[LOG_DIR_FAILURE_TIMEOUT_MS],
        )

    @property
    def request_deadline_ms(self) -> int:
        """How long a request may wait for a controller: a later one would say more."""
        return self.session_timeout_ms // 2


class MemberIdentity(NamedTuple):
    """What this process registers as."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    """Random for each process."""
    listeners: Mapping[str, ListenerEndpoint]
    features: Mapping[str, LevelRange]
    rack: str | None
    log_dirs: Sequence[Uuid]
    """The directories that were online at the start."""


class LifecycleEvents(NamedTuple):
    """Called on the event loop, each but the last at most once."""

    caught_up: Callable[[], object]
    """The controller has seen that this broker's metadata hold its registration."""
    unfenced: Callable[[], object]
    may_stop: Callable[[], object]
    """The controlled shutdown is granted, or there is none: the broker may stop serving."""
    failed: Callable[[str], object]
    """The broker has to stop; the text is for the operator."""


class BrokerLifecycleManager:
    """This broker's place in the cluster. Lives on the event loop."""

    def __init__(
        self,
        identity: MemberIdentity,
        submit: Submit,
        timer: Timer,
        settings: LifecycleSettings,
        events: LifecycleEvents,
        *,
        metadata_offset: Callable[[], int],
        cordoned_log_dirs: Callable[[], Sequence[Uuid] | None] = lambda: None,
    ) -> None:
        """`metadata_offset`: of the newest image that all publishers have applied. `cordoned_log_dirs`: None where the
        cluster does not know cordons, or it is not known whether it does."""
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_EPOCH
        self.last_good_heartbeat_s: float | None = None
        """When the controller answered the last heartbeat, by the timer's clock."""
        self._identity = identity
        self._submit = submit
        self._timer = timer
        self._settings = settings
        self._events = events
        self._metadata_offset = metadata_offset
        self._cordoned_log_dirs = cordoned_log_dirs
        self._previous_broker_epoch = NO_EPOCH
        self._is_registered = False
        self._is_fenced = True
        self._is_ready_to_unfence = False
        self._failed_dirs: dict[Uuid, bool] = {}
        """Directories that have failed, and whether the controller knows."""
        self._is_under_way = False
        self._is_urgent = False
        """Something came up while a request was under way that the controller has to know at once."""
        self._had_shutdown_response = False
        self._next: TimerHandle | None = None
        self._deadlines: list[TimerHandle] = []

    # -- for the rest of the broker --

    @property
    def is_registered(self) -> bool:
        """Whether a controller has accepted this incarnation."""
        return self.broker_epoch != NO_EPOCH

    @property
    def is_serving(self) -> bool:
        """Whether clients are sent here: running, unfenced, and heard by the controller within its session."""
        return self.state is BrokerState.RUNNING and not self._is_fenced and self._is_heard

    @property
    def _is_heard(self) -> bool:
        """Whether the controller has answered a heartbeat within the session's time."""
        silent_s = self.heartbeat_age_s
        return silent_s is not None and silent_s * 1000 < self._settings.session_timeout_ms

    @property
    def heartbeat_age_s(self) -> float | None:
        """Seconds since the controller answered a heartbeat without an error; None before the first."""
        last = self.last_good_heartbeat_s
        return None if last is None else self._timer.time() - last

    @property
    def is_fenced(self) -> bool:
        """Whether the controller said so with its last answer."""
        return self._is_fenced

    def start(self, previous_broker_epoch: int = NO_EPOCH) -> None:
        """Begins to register. `previous_broker_epoch`: of an incarnation that stopped cleanly with all directories."""
        self.state = BrokerState.STARTING
        self._previous_broker_epoch = previous_broker_epoch
        self._after(self._settings.initial_registration_timeout_ms, self._registration_is_late)
        self._communicate()

    def ready_to_unfence(self) -> None:
        """Logs are open and the metadata applied: the controller may send clients here."""
        self._is_ready_to_unfence = True
        self._tell()

    def register_again(self) -> None:
        """Sends the registration once more: the metadata do not have all of it."""
        self._is_registered = False
        self._tell()

    def directory_failed(self, directory_id: Uuid) -> None:
        """Reports a log directory until the controller knows; the broker stops where that takes too long."""
        if directory_id in self._failed_dirs:
            return
        self._failed_dirs[directory_id] = False
        self._after(self._settings.log_dir_failure_timeout_ms, partial(self._report_is_late, directory_id))
        self._tell()

    def cordons_changed(self) -> None:
        """The cordoned directories are others."""
        self._tell()

    def begin_controlled_shutdown(self) -> None:
        """Asks the controller to move the leaders; `may_stop` follows, at once where this broker leads nothing yet."""
        if self.state is BrokerState.RUNNING:
            logger.info("asking the controller for a controlled shutdown")
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._tell()
        elif self.state < BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._may_stop()

    def close(self) -> None:
        """Sends nothing more; without a controlled shutdown the controller fences this broker after the session."""
        self.state = BrokerState.SHUTTING_DOWN
        for handle in self._deadlines:
            handle.cancel()
        self._deadlines.clear()
        self._cancel_next()

    # -- when to send --

    def _after(self, delay_ms: int, call: Callable[[], object]) -> None:
        self._deadlines.append(self._timer.call_at(self._timer.time() + delay_ms / 1000, call))

    def _tell(self) -> None:
        """Sends the next request now, or right after the one under way."""
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            return
        if self._is_under_way:
            self._is_urgent = True
        elif self.is_registered:  # else a registration is due anyway, and never right after a failure
            self._communicate()

    def _communicate_in(self, delay_ms: int) -> None:
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        delay_ms = 0 if self._is_urgent else delay_ms
        self._is_urgent = False
        self._cancel_next()
        self._next = self._timer.call_at(self._timer.time() + delay_ms / 1000, self._communicate)

    def _cancel_next(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _retry(self) -> None:
        self._is_urgent = False
        self._communicate_in(self._settings.heartbeat_interval_ms)

    def _communicate(self) -> None:
        self._cancel_next()
        self._is_under_way = True
        if self._is_registered:
            failed_dirs = list(self._failed_dirs)
            request: Message = self._heartbeat(failed_dirs)
            responded: Callable[[Message | ChannelError], None] = partial(self._beaten, failed_dirs)
        else:
            request, responded = self._registration(), self._registered
        pending = self._submit(request, deadline_ms=self._settings.request_deadline_ms)
        pending.add_done_callback(responded)

    # -- registration --

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self._identity
        return BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(
                    name=name, host=at.host, port=at.port, security_protocol=at.security_protocol
                )
                for name, at in identity.listeners.items()
            ],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in identity.features.items()
            ],
            rack=identity.rack,
            log_dirs=sorted(identity.log_dirs),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _registered(self, result: Message | ChannelError) -> None:
        self._is_under_way = False
        if isinstance(result, ChannelClosed) or self.state is BrokerState.SHUTTING_DOWN:
            return
        if not isinstance(result, BrokerRegistrationResponse):
            logger.warning("the registration failed: %s", _reason(result))
            self._retry()
        elif result.error_code:
            self._rejected(result.error_code)
        else:
            self.broker_epoch = result.broker_epoch
            self._is_registered = True
            logger.info("registered with broker epoch %d", self.broker_epoch)
            self._communicate_in(0)

    def _rejected(self, error_code: int) -> None:
        advice = _ADVICE.get(error_code, "")
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            ranges = ", ".join(
                f"{name} {low}-{high}" for name, (low, high) in self._identity.features.items()
            )
            advice += f" {ranges}"
        elif error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._events.failed(
                f"the controller rejects the registration, {advice} {self._identity.cluster_id} is their cluster.id"
            )
            return
        logger.warning(
            "the controller rejects the registration with %s%s",
            _name(error_code),
            f": {advice}" if advice else "",
        )
        self._retry()

    def _registration_is_late(self) -> None:
        if not self.is_registered:
            seconds = self._settings.initial_registration_timeout_ms / 1000
            self._events.failed(
                f"no controller has accepted the registration within {seconds:g} s "
                f"({INITIAL_BROKER_REGISTRATION_TIMEOUT_MS.name})"
            )

    # -- heartbeats --

    def _heartbeat(self, failed_dirs: list[Uuid]) -> BrokerHeartbeatRequest:
        cordoned = None if self.state is BrokerState.STARTING else self._cordoned_log_dirs()
        return BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._is_ready_to_unfence,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=failed_dirs,
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )

    def _beaten(self, failed_dirs: list[Uuid], result: Message | ChannelError) -> None:
        self._is_under_way = False
        if isinstance(result, ChannelClosed) or self.state is BrokerState.SHUTTING_DOWN:
            return
        if not isinstance(result, BrokerHeartbeatResponse):
            logger.warning("no response to a heartbeat: %s", _reason(result))
            self._unheard()
        elif result.error_code:
            logger.warning("the controller rejects a heartbeat with %s", _name(result.error_code))
            self._unheard()
        else:
            self._failed_dirs.update(dict.fromkeys(failed_dirs, True))
            self.last_good_heartbeat_s = self._timer.time()
            self._is_fenced = result.is_fenced
            self._advance(result)

    def _unheard(self) -> None:
        """Tries again; but a broker that the controller has fenced by now leads nothing that could be moved."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and not self._is_heard:
            logger.warning(
                "no controller has answered a heartbeat within %s: this broker stops without a controlled shutdown",
                BROKER_SESSION_TIMEOUT_MS.name,
            )
            self._may_stop()
        else:
            self._retry()

    def _advance(self, response: BrokerHeartbeatResponse) -> None:
        """Changes the state as the table says, and plans the next heartbeat."""
        interval_ms = self._settings.heartbeat_interval_ms
        if self.state is BrokerState.STARTING:
            interval_ms = STARTING_INTERVAL_MS
            if response.is_caught_up:
                self.state = BrokerState.RECOVERY
                self._events.caught_up()
        elif self.state is BrokerState.RECOVERY:
            if not response.is_fenced:
                self.state = BrokerState.RUNNING
                self._events.unfenced()
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                logger.info("the controller grants the controlled shutdown")
                self._may_stop()
                return
            if not self._had_shutdown_response:
                interval_ms = FIRST_SHUTDOWN_INTERVAL_MS
            self._had_shutdown_response = True
        if not self._is_under_way:  # an event may have led to the next one
            self._communicate_in(interval_ms)

    def _may_stop(self) -> None:
        self.close()
        self._events.may_stop()

    def _report_is_late(self, directory_id: Uuid) -> None:
        if not self._failed_dirs[directory_id]:
            seconds = self._settings.log_dir_failure_timeout_ms / 1000
            self._events.failed(
                f"the controller could not be told within {seconds:g} s ({LOG_DIR_FAILURE_TIMEOUT_MS.name}) that log "
                f"directory {uuid_to_string(directory_id)} has failed"
            )


def _name(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:  # one of a later Kafka
        return f"error {error_code}"


def _reason(result: Message | ChannelError) -> str:
    return f"a {type(result).__name__}" if isinstance(result, Message) else result.reason
