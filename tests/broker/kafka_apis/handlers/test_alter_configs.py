"""AlterConfigs and IncrementalAlterConfigs: their responses, and the immediate effect of changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.broker.controller.config_admin import (
    ChecksWaitError,
    ConfigAdmin,
    ConfigAlteration,
    KeyAlteration,
)
from barnabas.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import MESSAGE_MAX_BYTES
from barnabas.config.dynamic import SettingsWaitError
from barnabas.config.keys import ConfigError
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.broker_fixture import NODE_ID, WAITS, InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.support.difference import Like

SET, DELETE, APPEND, SUBTRACT = range(4)
NONE, REFUSED = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
LOGGER = "barnabas.a_test_of_loggers"

One = IncrementalAlterConfigsRequest.AlterConfigsResource
Op = tuple[str, int, str | None]


def resource(kind: int, name: str, *operations: Op) -> One:
    alterable = IncrementalAlterConfigsRequest.AlterableConfig
    return One(
        resource_type=kind,
        resource_name=name,
        configs=[alterable(name=key, config_operation=what, value=value) for key, what, value in operations],
    )


def alter(
    broker: InProcessBroker, *resources: One, validate_only: bool = False, version: int = 1
) -> list[int]:
    """Alters configs; returns the error codes, in order."""
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    answer = broker.client(version).ask(request)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    for asked, told in zip(resources, answer.responses, strict=True):
        assert (told.resource_type, told.resource_name) == (asked.resource_type, asked.resource_name)
        assert bool(told.error_message) is bool(told.error_code)
    return [told.error_code for told in answer.responses]


def replace(
    broker: InProcessBroker,
    kind: int,
    name: str,
    *,
    validate_only: bool = False,
    version: int = 2,
    **configs: str,
) -> int:
    """Sets exactly these settings, their dots written as underscores; returns the error code."""
    resources = [
        AlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
    ]
    answer = broker.client(version).ask(AlterConfigsRequest(resources=resources, validate_only=validate_only))
    assert isinstance(answer, AlterConfigsResponse)
    return answer.responses[0].error_code


@pytest.mark.parametrize("version", [0, 1])
def test_a_topic_config_takes_effect_with_the_response(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t")
    wish = resource(
        TOPIC_RESOURCE, "t", ("max.message.bytes", SET, "77"), ("cleanup.policy", APPEND, "compact")
    )
    assert alter(broker, wish, version=version) == [NONE]
    log = broker.log_manager.get_log("t", 0)
    assert log is not None
    assert (log.config.max_message_bytes, log.config.compact, log.config.delete) == (77, True, True)
    assert alter(broker, resource(TOPIC_RESOURCE, "t", ("max.message.bytes", DELETE, None))) == [NONE]
    assert log.config.max_message_bytes == MESSAGE_MAX_BYTES.default


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces_all_settings(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t", retention_ms="1000", segment_ms="5")
    assert replace(broker, TOPIC_RESOURCE, "t", version=version, retention_ms="9", flush_messages="1") == NONE
    assert broker.broker.image.topic_config("t") == {"retention.ms": "9", "flush.messages": "1"}
    assert replace(broker, TOPIC_RESOURCE, "t", version=version, validate_only=True) == NONE
    assert broker.broker.image.topic_config("t") == {"retention.ms": "9", "flush.messages": "1"}
    assert replace(broker, TOPIC_RESOURCE, "t", version=version) == NONE
    assert broker.broker.image.topic_config("t") == {}


def test_each_resource_has_its_own_result(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    codes = alter(
        broker,
        resource(TOPIC_RESOURCE, "none", ("retention.ms", SET, "1")),
        resource(TOPIC_RESOURCE, "t", ("retention.ms", SET, "1")),
        resource(CLIENT_METRICS_RESOURCE, "m", ("interval.ms", SET, "1")),
        resource(BROKER_LOGGER_RESOURCE, "2", ("root", SET, "INFO")),
    )
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE, REFUSED, REFUSED]
    assert broker.broker.image.topic_config("t") == {"retention.ms": "1"}


def test_a_resource_named_twice_is_unchanged(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    wish = resource(TOPIC_RESOURCE, "t", ("retention.ms", SET, "1"))
    loggers = resource(BROKER_LOGGER_RESOURCE, str(NODE_ID), ("root", SET, "TRACE"))
    level = logging.getLogger("barnabas").level
    assert alter(broker, wish, loggers, wish, loggers) == [REFUSED] * 4
    assert broker.broker.image.topic_config("t") == {}
    assert logging.getLogger("barnabas").level == level


def test_validate_only_changes_nothing(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    wish = resource(TOPIC_RESOURCE, "t", ("retention.ms", SET, "1"))
    deltas = len(broker.deltas)
    assert alter(broker, wish, validate_only=True) == [NONE]
    assert len(broker.deltas) == deltas


def test_queued_changes_build_on_each_other(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    first, second = broker.client(1), broker.client(1)
    policy = ("metrics", SET, "a")
    interval = ("interval.ms", SET, "100")
    for client, operation in ((first, policy), (second, interval)):
        assert client >> IncrementalAlterConfigsRequest(
            resources=[resource(CLIENT_METRICS_RESOURCE, "m", operation)]
        )
    runner.release_all()
    assert broker.broker.image.configs[CLIENT_METRICS_RESOURCE, "m"] == {"metrics": "a", "interval.ms": "100"}
    broker.kill()


def test_a_failed_write_is_reported(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(BROKER_RESOURCE, "2", ("message.max.bytes", SET, "5")),
            resource(BROKER_RESOURCE, "", ("message.max.bytes", SET, "5")),
        ]
    )
    client = broker.client(1) >> request
    runner.fail(OSError("no disk"))
    (answer,) = client._answers
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert [told.error_code for told in answer.responses] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert broker.config[MESSAGE_MAX_BYTES] == MESSAGE_MAX_BYTES.default
    broker.kill()


def test_a_broker_config_applies_to_all_topics_without_their_own(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    broker.create_topic("u", max_message_bytes="99")
    this = resource(BROKER_RESOURCE, str(NODE_ID), ("message.max.bytes", SET, "77"))
    assert alter(broker, resource(BROKER_RESOURCE, "", ("message.max.bytes", SET, "55")), this) == [
        NONE,
        NONE,
    ]

    def sizes() -> list[int]:
        return [log.config.max_message_bytes for log in broker.log_manager.all_logs()]

    assert (broker.config[MESSAGE_MAX_BYTES], sizes()) == (77, [77, 99])
    broker.create_topic("v")
    assert sizes() == [77, 99, 77]
    assert alter(broker, resource(BROKER_RESOURCE, str(NODE_ID), ("message.max.bytes", DELETE, None))) == [
        NONE
    ]
    assert sizes() == [55, 99, 55]
    assert alter(broker, resource(BROKER_RESOURCE, "", ("message.max.bytes", DELETE, None))) == [NONE]
    assert sizes() == [MESSAGE_MAX_BYTES.default, 99, MESSAGE_MAX_BYTES.default]


def test_settings_survive_a_restart(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    wishes = [
        resource(BROKER_RESOURCE, str(NODE_ID), ("message.max.bytes", SET, "77"), ("no.such.key", SET, "x")),
        resource(TOPIC_RESOURCE, "t", ("retention.ms", SET, "5")),
    ]
    assert alter(broker, *wishes) == [NONE, NONE]
    broker.stop()
    again = InProcessBroker(tmp_path)
    assert again.config[MESSAGE_MAX_BYTES] == 77
    (log,) = again.log_manager.all_logs()
    assert (log.config.max_message_bytes, log.config.retention_ms) == (77, 5)
    again.kill()


@pytest.fixture
def levels() -> Iterator[None]:
    """Restores the levels of loggers."""
    root = logging.getLogger("barnabas")
    before = root.level
    root.setLevel(logging.INFO)
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    yield
    root.setLevel(before)
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("levels")
def test_loggers_change_at_once(broker: InProcessBroker) -> None:
    me = str(NODE_ID)
    assert alter(
        broker, resource(BROKER_LOGGER_RESOURCE, me, (LOGGER, SET, "TRACE")), validate_only=True
    ) == [NONE]
    assert not logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    assert alter(broker, resource(BROKER_LOGGER_RESOURCE, me, (LOGGER, SET, "TRACE"))) == [NONE]
    assert logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    assert alter(broker, resource(BROKER_LOGGER_RESOURCE, me, (LOGGER, DELETE, None))) == [NONE]
    assert not logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
    both = resource(BROKER_LOGGER_RESOURCE, me, ("root", SET, "ERROR"), ("no.such", SET, "INFO"))
    assert alter(broker, both) == [ErrorCode.INVALID_CONFIG]
    assert logging.getLogger(LOGGER).isEnabledFor(logging.INFO)


def test_alter_configs_rejects_loggers(broker: InProcessBroker) -> None:
    assert replace(broker, BROKER_LOGGER_RESOURCE, str(NODE_ID), root="INFO") == REFUSED


# ---- checks that have to wait for another host


class Waiting:
    """A check of settings that says nothing before a test lets it."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.then: list[Callable[[], None]] = []
        self.checked = 0
        self.needed = {"500": 2, "600": 1, "700": 1}
        """How often something has to be fetched for these values of message.max.bytes."""
        broker.broker.config.reconfiguration_checks.append(self.check)

    def check(self, candidate: BrokerConfig) -> None:
        self.checked += 1
        text = str(candidate[MESSAGE_MAX_BYTES])
        if self.needed.get(text):
            raise SettingsWaitError(self.then.append)
        if text == "700":
            raise ConfigError(MESSAGE_MAX_BYTES.name, text, "is not what the other host has")

    def fetched(self, text: str) -> None:
        self.needed[text] -= 1
        self.then.pop(0)()


def of_broker(text: str, *, name: str = "") -> One:
    return resource(BROKER_RESOURCE, name, (MESSAGE_MAX_BYTES.name, SET, text))


def test_settings_that_need_another_host_are_decided_on_when_it_has_answered(broker: InProcessBroker) -> None:
    waiting, client = Waiting(broker), broker.client(version=1)
    broker.create_topic("t")
    request = IncrementalAlterConfigsRequest(
        resources=[of_broker("500"), resource(TOPIC_RESOURCE, "t", ("retention.ms", SET, "1"))]
    )
    assert client >> request << WAITS
    assert broker.broker.image.topic_config("t") == {}
    waiting.fetched("500")  # and something of another provider
    assert client << WAITS
    waiting.fetched("500")
    assert client << Like(responses=[Like(error_code=NONE), Like(error_code=NONE)])
    assert broker.broker.config[MESSAGE_MAX_BYTES] == 500


def test_an_answer_that_rejects_settings_leaves_the_others(broker: InProcessBroker) -> None:
    waiting, client = Waiting(broker), broker.client(version=2)
    of_broker_1 = AlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=str(NODE_ID),
        configs=[AlterConfigsRequest.AlterableConfig(name=MESSAGE_MAX_BYTES.name, value="700")],
    )
    of_metrics = AlterConfigsRequest.AlterConfigsResource(
        resource_type=CLIENT_METRICS_RESOURCE,
        resource_name="m",
        configs=[AlterConfigsRequest.AlterableConfig(name="interval.ms", value="1000")],
    )
    assert client >> AlterConfigsRequest(resources=[of_metrics, of_broker_1]) << WAITS
    checked = waiting.checked
    waiting.fetched("700")
    why = "Invalid value 700 for configuration message.max.bytes: is not what the other host has"
    assert client << Like(responses=[Like(error_code=NONE), Like(error_code=REFUSED, error_message=why)])
    assert waiting.checked == checked + 1  # what has failed is not fetched again


def test_settings_that_have_changed_since_they_were_checked_are_not_waited_for(
    broker: InProcessBroker,
) -> None:
    waiting, client = Waiting(broker), broker.client(version=1)
    assert client >> IncrementalAlterConfigsRequest(resources=[of_broker("600")]) << WAITS
    waiting.then.pop(0)()  # and yet it has to be fetched
    waiting.then.pop(0)
    admin = ConfigAdmin(broker.broker.config, NODE_ID)
    alteration = ConfigAlteration((BROKER_RESOURCE, ""), [KeyAlteration(MESSAGE_MAX_BYTES.name, SET, "600")])
    (outcome,) = admin.decide(broker.broker.image, [alteration])
    assert isinstance(outcome, ChecksWaitError)
    assert (outcome.code, "try again" in str(outcome.message)) == (REFUSED, True)


# ---- authorization


def test_nobody_has_the_broker_look_at_what_they_may_not_alter(guarded: GuardedBroker) -> None:
    waiting = Waiting(guarded)
    assert alter(guarded, of_broker("600")) == [NO_CLUSTER]
    wrong = replace(guarded, BROKER_RESOURCE, "", message_max_bytes="700")
    assert wrong == ErrorCode.INVALID_CONFIG  # which removes min.insync.replicas
    assert replace(guarded, BROKER_RESOURCE, str(NODE_ID), message_max_bytes="700") == NO_CLUSTER
    assert (waiting.checked, waiting.then) == (0, [])
    assert alter(guarded, of_broker("none")) == [REFUSED]


NO_TOPIC, NO_GROUP, NO_CLUSTER = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


def test_each_resource_is_altered_by_who_may(guarded: GuardedBroker) -> None:
    logging.getLogger(LOGGER)
    guarded.create_topic("mine")
    guarded.create_topic("hidden")
    asked = (
        resource(TOPIC_RESOURCE, "hidden", ("retention.ms", SET, "1")),
        resource(TOPIC_RESOURCE, "mine", ("retention.ms", SET, "1")),
        resource(GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "45000")),
        resource(BROKER_RESOURCE, "", ("log.cleaner.threads", SET, "1")),
        resource(CLIENT_METRICS_RESOURCE, "m", ("interval.ms", SET, "1000")),
        resource(BROKER_LOGGER_RESOURCE, str(NODE_ID), (LOGGER, SET, "INFO")),
    )
    guarded.allow(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, "mine")
    assert alter(guarded, *asked) == [NO_TOPIC, NONE, NO_GROUP, NO_CLUSTER, NO_CLUSTER, NO_CLUSTER]
    assert not guarded.broker.image.topic_config("hidden")
    assert guarded.broker.image.topic_config("mine") == {"retention.ms": "1"}
    guarded.allow(AclOperation.ALTER_CONFIGS)
    guarded.allow(AclOperation.ALTER_CONFIGS, AclResourceType.GROUP, "g")
    assert alter(guarded, *asked) == [NO_TOPIC, NONE, NONE, NONE, NONE, NONE]


def test_what_is_wrong_in_itself_is_reported_first(guarded: GuardedBroker) -> None:
    repeated = resource(TOPIC_RESOURCE, "t", ("retention.ms", SET, "1"))
    no_value = resource(TOPIC_RESOURCE, "u", ("retention.ms", SET, None))
    other_broker = resource(BROKER_RESOURCE, "99", ("log.cleaner.threads", SET, "1"))
    unknown = resource(99, "t", ("retention.ms", SET, "1"))
    codes = alter(guarded, repeated, repeated, no_value, other_broker, unknown)
    assert codes == [REFUSED] * 5


def test_the_older_request_asks_for_the_same(guarded: GuardedBroker) -> None:
    guarded.create_topic("t")
    assert replace(guarded, TOPIC_RESOURCE, "t", retention_ms="1") == NO_TOPIC
    assert replace(guarded, CLIENT_METRICS_RESOURCE, "m", interval_ms="1000") == NO_CLUSTER
    guarded.allow(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, "t")
    assert replace(guarded, TOPIC_RESOURCE, "t", retention_ms="1") == NONE
