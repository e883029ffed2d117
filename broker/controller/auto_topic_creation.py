"""AutoTopicCreationManager: has the controller of a cluster create topics on demand, as this broker is configured.

Clients ask again until the topic exists, so no response waits for the controller. Replication factors are those of this
broker's configuration: the controller rejects more than there are brokers, and the next request tries again. The error
of an internal topic is kept for a while, so that it is logged once and not with each of these attempts.
Source: kafka.server.DefaultAutoTopicCreationManager, ExpiringErrorCache (in which Kafka keeps errors of the topics of
streams groups, for two heartbeat intervals, and no others).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.internal_topic_specs import configured_topic
from barnabas.broker.controller.topic_admin import TopicSpec, check_topic_name
from barnabas.broker.pending import Pending
from barnabas.config.catalogue.server import REQUEST_TIMEOUT_MS
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from barnabas.broker.request import RequestContext
    from barnabas.config.broker_config import BrokerConfig

logger = logging.getLogger("barnabas.membership")

ERROR_REQUEST_TIMEOUTS: Final = 3
"""For how many times request.timeout.ms the error of an internal topic is kept."""

_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

SendCreateTopics = Callable[
    [CreateTopicsRequest, "RequestContext | None"], Pending[CreateTopicsResponse | str | None]
]
"""Sends a request to the controller: in the name of a client with a context (in an Envelope), of this broker without.
Completes with the response to this broker, or with the reason why there is none; with None for a client's request, of
which the sender logs the failures."""


class AutoTopicCreationManager:
    """Sends one CreateTopics for what is missing; each name is in one request at a time."""

    def __init__(self, config: BrokerConfig, send: SendCreateTopics, *, clock: Callable[[], float]) -> None:
        """`clock` is a monotonic clock, in seconds."""
        self._config = config
        self._send = send
        self._clock = clock
        self._in_flight: set[str] = set()
        self._errors: dict[str, tuple[str, float]] = {}
        """The last error of an internal topic, and until when it is kept."""

    def create(self, names: Iterable[str], context: RequestContext | None) -> None:
        """Asks for the topics that may be created and are not asked for already.

        Without a context they are internal topics. An error of one of these is logged when it is new for the topic, and
        again after ERROR_REQUEST_TIMEOUTS.
        """
        wanted = [name for name in dict.fromkeys(names) if name not in self._in_flight and _is_valid(name)]
        if not wanted:
            return
        self._in_flight.update(wanted)
        request = CreateTopicsRequest(
            topics=[_creatable(configured_topic(name, self._config)) for name in wanted],
            timeout_ms=self._config[REQUEST_TIMEOUT_MS],
        )
        self._send(request, context).add_done_callback(partial(self._answered, wanted))

    def _answered(self, names: Iterable[str], result: CreateTopicsResponse | str | None) -> None:
        self._in_flight.difference_update(names)
        if isinstance(result, CreateTopicsResponse):
            for topic in result.topics:
                if topic.error_code in _CREATED:
                    self._errors.pop(topic.name, None)
                else:
                    self._failed(topic.name, _error_of(topic))
        elif result is not None:
            for name in names:
                self._failed(name, result)

    def _failed(self, name: str, error: str) -> None:
        known, until = self._errors.get(name, ("", 0.0))
        now = self._clock()
        if error != known or now >= until:
            kept_s = ERROR_REQUEST_TIMEOUTS * self._config[REQUEST_TIMEOUT_MS] / 1000
            self._errors[name] = (error, now + kept_s)
            logger.warning("The controller has not created the topic %s: %s", name, error)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def _error_of(topic: CreateTopicsResponse.CreatableTopicResult) -> str:
    """The error's name and the controller's message."""
    try:
        return str(ApiError(ErrorCode(topic.error_code), topic.error_message))
    except ValueError:  # one of a later Kafka
        return f"error {topic.error_code}: {topic.error_message}"


def _creatable(spec: TopicSpec) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=spec.name,
        num_partitions=spec.partition_count,
        replication_factor=spec.replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in (spec.configs or {}).items()
        ],
    )
