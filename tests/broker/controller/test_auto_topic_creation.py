"""AutoTopicCreationManager: what a member of a cluster asks its controller to create, how often, and what it logs."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.controller.auto_topic_creation import AutoTopicCreationManager
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from tests.broker.cluster_images import connection
from tests.broker.fakes import ManualTimer

CONTEXT = RequestContext(connection(), ApiKey.METADATA, 12)
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"

Result = CreateTopicsResponse | str | None


class Controller:
    def __init__(self, *settings: str) -> None:
        self.requests: list[tuple[CreateTopicsRequest, RequestContext | None]] = []
        self.pending: list[Pending[Result]] = []
        self.timer = ManualTimer()
        self.manager = AutoTopicCreationManager(
            BrokerConfig.of(None, overrides=list(settings)), self._send, clock=self.timer.time
        )

    def _send(self, request: CreateTopicsRequest, context: RequestContext | None) -> Pending[Result]:
        self.requests.append((request, context))
        self.pending.append(Pending())
        return self.pending[-1]

    def attempt(self, result: Result, *names: str) -> None:
        """The broker asks for internal topics, and the controller answers."""
        self.manager.create(names or (OFFSETS,), None)
        self.pending[-1].complete(result)

    def names(self) -> list[list[str]]:
        return [[topic.name for topic in request.topics] for request, _ in self.requests]


def test_factors_and_partitions_are_those_of_the_configuration() -> None:
    controller = Controller(
        "num.partitions=6",
        "default.replication.factor=2",
        "offsets.topic.replication.factor=3",
        "offsets.topic.num.partitions=5",
        "transaction.state.log.replication.factor=4",
        "transaction.state.log.min.isr=3",
        "request.timeout.ms=1234",
    )
    controller.manager.create(["t", "__consumer_offsets", "__transaction_state"], CONTEXT)
    ((request, context),) = controller.requests
    assert context is CONTEXT
    assert request.timeout_ms == 1234
    plain, offsets, transactions = request.topics
    assert (plain.num_partitions, plain.replication_factor, plain.configs) == (6, 2, [])
    assert (offsets.num_partitions, offsets.replication_factor) == (5, 3)
    assert transactions.replication_factor == 4
    configs = {config.name: config.value for config in transactions.configs}
    assert (configs["min.insync.replicas"], configs["cleanup.policy"]) == ("3", "compact")


def test_a_topic_is_in_one_request_at_a_time() -> None:
    controller = Controller()
    controller.manager.create(["a", "b", "a"], CONTEXT)
    controller.manager.create(["a", "c"], None)
    controller.manager.create(["b"], None)
    assert controller.names() == [["a", "b"], ["c"]]
    controller.pending[0].complete(None)
    controller.manager.create(["a", "c"], None)
    assert controller.names() == [["a", "b"], ["c"], ["a"]]


def test_invalid_names_are_not_asked_for() -> None:
    controller = Controller()
    controller.manager.create(["", "a b", "."], CONTEXT)
    assert controller.requests == []


# ---- errors of internal topics


def response(*topics: tuple[str, int, str | None]) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(name=name, error_code=code, error_message=message)
            for name, code, message in topics
        ]
    )


def rejected(message: str | None = "Unable to replicate the partition 3 time(s).") -> CreateTopicsResponse:
    return response((OFFSETS, ErrorCode.INVALID_REPLICATION_FACTOR, message))


CREATED = response((OFFSETS, ErrorCode.NONE, None))
EXISTS = response((OFFSETS, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic '__consumer_offsets' already exists."))


def test_an_error_names_the_topic_the_error_and_the_controllers_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Controller().attempt(rejected())
    assert caplog.record_tuples == [
        (
            "barnabas.membership",
            logging.WARNING,
            "The controller has not created the topic __consumer_offsets: "
            "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 3 time(s).",
        )
    ]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (rejected(None), f"INVALID_REPLICATION_FACTOR: {ErrorCode.INVALID_REPLICATION_FACTOR.text}"),
        (response((OFFSETS, 9999, "later")), "error 9999: later"),
        ("this broker stops", "this broker stops"),
    ],
)
def test_other_failures_are_logged_as_well_as_they_are_known(
    caplog: pytest.LogCaptureFixture, result: Result, text: str
) -> None:
    Controller().attempt(result)
    assert caplog.messages == [f"The controller has not created the topic {OFFSETS}: {text}"]


def test_an_error_is_logged_once_and_again_when_it_has_lasted(caplog: pytest.LogCaptureFixture) -> None:
    controller = Controller("request.timeout.ms=10000")
    for _ in range(300):
        controller.attempt(rejected())
        controller.timer.advance(0.1)
    assert len(caplog.messages) == 1
    assert len(controller.requests) == 300  # each attempt asks all the same
    controller.attempt(rejected())
    controller.attempt(rejected())
    assert len(caplog.messages) == 2


def test_a_different_error_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    controller = Controller()
    for result in (rejected("1 broker"), rejected("1 broker"), rejected("2 brokers"), "no controller"):
        controller.attempt(result)
    assert [line.rpartition(": ")[2] for line in caplog.messages] == [
        "1 broker",
        "2 brokers",
        "no controller",
    ]


def test_each_topic_has_an_error_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    controller = Controller()
    for _ in range(2):
        controller.attempt("no controller", OFFSETS, STATE)
    assert [OFFSETS in line for line in caplog.messages] == [True, False]
    assert STATE in caplog.messages[1]


@pytest.mark.parametrize("result", [CREATED, EXISTS])
def test_the_error_of_a_topic_that_exists_is_forgotten(
    caplog: pytest.LogCaptureFixture, result: CreateTopicsResponse
) -> None:
    controller = Controller()
    controller.attempt(result)
    assert caplog.messages == []
    for each in (rejected(), result, rejected()):
        controller.attempt(each)
    assert len(caplog.messages) == 2


def test_errors_of_clients_topics_are_the_senders(caplog: pytest.LogCaptureFixture) -> None:
    controller = Controller()
    controller.manager.create(["t"], CONTEXT)
    controller.pending[0].complete(None)
    assert caplog.messages == []
