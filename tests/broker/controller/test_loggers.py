from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.broker.controller.config_admin import KeyAlteration
from barnabas.broker.controller.loggers import alter_loggers, logger_levels
from barnabas.broker.logging.setup import AUDIT_LOGGER
from barnabas.config.alteration import AlterOperation
from barnabas.protocol.errors import ApiError, ErrorCode

SET, DELETE, APPEND, SUBTRACT = AlterOperation
NAME = "barnabas.one_of_a_test"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """The root at INFO and one logger without a level; restored afterwards."""
    root, one = logging.getLogger("barnabas"), logging.getLogger(NAME)
    before = root.level
    root.setLevel(logging.INFO)
    one.setLevel(logging.NOTSET)
    yield
    root.setLevel(before)
    one.setLevel(logging.NOTSET)


def alter(*alterations: tuple[str, int, str | None], broker: str = "1", validate_only: bool = False) -> None:
    alter_loggers(
        broker, [KeyAlteration(*one) for one in alterations], node_id=1, validate_only=validate_only
    )


def test_levels_have_kafkas_names() -> None:
    for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
        alter((NAME, SET, level))
        assert logger_levels()[NAME] == level
    logging.getLogger(NAME).setLevel(logging.CRITICAL + 1)
    assert logger_levels()[NAME] == "OFF"


def test_loggers_without_a_level_inherit_that_of_the_root() -> None:
    alter(("root", SET, "ERROR"))
    assert (logger_levels()["root"], logger_levels()[NAME]) == ("ERROR", "ERROR")
    alter((NAME, SET, "DEBUG"))
    assert (logger_levels()["root"], logger_levels()[NAME]) == ("ERROR", "DEBUG")
    alter((NAME, DELETE, None))
    assert logger_levels()[NAME] == "ERROR"


def test_only_existing_loggers_of_this_package_are_listed() -> None:
    logging.getLogger("barnabas.of.a.test.below")  # creates no logger for its parents
    logging.getLogger("elsewhere.of.a.test")
    names = logger_levels().keys()
    assert "barnabas.of.a.test.below" in names
    assert not {"barnabas", "barnabas.of", "barnabas.of.a.test", "elsewhere.of.a.test"} & names


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("no.such", DELETE, None), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, "info"), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, "OFF"), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, None), ErrorCode.INVALID_CONFIG),
        ((NAME, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ((NAME, SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST),
        ((NAME, 7, "INFO"), ErrorCode.INVALID_REQUEST),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_rejected_alteration_changes_no_level(
    alteration: tuple[str, int, str | None], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as caught:
        alter((NAME, SET, "DEBUG"), alteration)
    assert caught.value.code is code
    assert logger_levels()[NAME] == "INFO"


@pytest.mark.parametrize("broker", ["", "2", "x"])
def test_another_broker_id_is_rejected(broker: str) -> None:
    with pytest.raises(ApiError):
        alter((NAME, SET, "DEBUG"), broker=broker)


def test_validate_only_changes_nothing() -> None:
    alter((NAME, SET, "DEBUG"), validate_only=True)
    assert logger_levels()[NAME] == "INFO"


def test_the_authorizers_logger_has_kafkas_name_and_a_level_of_its_own() -> None:
    audit = logging.getLogger(AUDIT_LOGGER)
    before = audit.level
    alter((AUDIT_LOGGER, SET, "DEBUG"), ("root", SET, "ERROR"))
    assert logger_levels()[AUDIT_LOGGER] == "DEBUG"
    alter((AUDIT_LOGGER, DELETE, None))
    assert logger_levels()[AUDIT_LOGGER] == "INFO"
    audit.setLevel(before)
