"""The broker's loggers as a resource (BROKER_LOGGER, KIP-412) that clients describe and alter.

Their names are `barnabas.<part>`, and `root` as in Kafka: the level of all loggers without their own. The authorizer's
has Kafka's name, and a level of its own. Levels have Kafka's names. Levels are lost when the process ends.
Source: RuntimeLoggerManager and LoggingController.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.broker.controller.config_admin import KeyAlteration, check_broker_id
from barnabas.broker.logging.setup import AUDIT_LOGGER, ROOT_LOGGER
from barnabas.config.alteration import AlterOperation
from barnabas.protocol.errors import ApiError, ErrorCode

ROOT: Final = "root"
TRACE: Final = 5
"""Below logging.DEBUG; no log line has this level."""

LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
OFF: Final = "OFF"

logger = logging.getLogger("barnabas.loggers")


def logger_levels() -> dict[str, str]:
    """The effective level of each existing logger, by name."""
    prefix = ROOT_LOGGER + "."
    known = logging.getLogger().manager.loggerDict
    names = sorted(
        name
        for name, found in known.items()
        if (name.startswith(prefix) or name == AUDIT_LOGGER) and isinstance(found, logging.Logger)
    )
    return {ROOT: _level_of(ROOT_LOGGER), **{name: _level_of(name) for name in names}}


def alter_loggers(
    broker_id: str, alterations: Sequence[KeyAlteration], *, node_id: int, validate_only: bool
) -> None:
    """Sets and resets levels, all or none. Raises ApiError: INVALID_REQUEST, INVALID_CONFIG."""
    check_broker_id(broker_id, node_id)
    levels = [_checked(alteration, logger_levels()) for alteration in alterations]
    if validate_only:
        return
    for (name, _, _), level in zip(alterations, levels, strict=True):
        logging.getLogger(_python_name(name)).setLevel(level)
        logger.warning("the level of logger %s is now %s", name, _level_of(_python_name(name)))


def _checked(alteration: KeyAlteration, known: dict[str, str]) -> int:
    """The requested level; NOTSET to use the root's again, and INFO for the authorizer's, which is how it begins."""
    name, operation, value = alteration
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, _not_for_levels(operation))
    if name not in known:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == AlterOperation.DELETE:
        if name == ROOT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
            )
        return logging.INFO if name == AUDIT_LOGGER else logging.NOTSET
    level = LEVELS.get(value or "")
    if level is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log levels are "
            f"{', '.join(sorted(LEVELS))}",
        )
    return level


def _not_for_levels(operation: int) -> str:
    try:
        return f"{AlterOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
    except ValueError:
        return f"Unknown operations type {operation}"


def _python_name(name: str) -> str:
    return ROOT_LOGGER if name == ROOT else name


def _level_of(name: str) -> str:
    """Kafka's name of the lowest level that the logger logs."""
    level = logging.getLogger(name).getEffectiveLevel()
    return next((word for word, least in LEVELS.items() if level <= least), OFF)
