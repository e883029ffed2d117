"""What handlers ask the authorizer of their broker. Without one the answer is always yes.

The questions are the Checks of `api_checks`, each for the names of some resources.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.kafka_apis.api_checks import ERRORS
from barnabas.broker.security.auth_helper import EVERYTHING
from barnabas.broker.security.decisions import Check
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.request import RequestContext

T = TypeVar("T")


def is_allowed(broker: Broker, context: RequestContext, check: Check, name: str = CLUSTER_NAME) -> bool:
    """Whether the client may do something with one resource."""
    auth = broker.auth
    return auth is None or auth.authorize(context, check, name)


def allowed_names(
    broker: Broker, context: RequestContext, check: Check, names: Iterable[str]
) -> Container[str]:
    """Those of the names with which the client may do something. A name counts as often as it is there."""
    auth = broker.auth
    return EVERYTHING if auth is None else auth.filter(context, check, names)


def denied(check: Check) -> ApiError:
    """The error of what a check denies, with Kafka's text of its code."""
    error = ERRORS[check.resource_type]
    return ApiError(error, error.text)


def split(items: Iterable[T], allowed: Container[str], name: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """The items whose names are allowed, and the others, both in their order."""
    granted: list[T] = []
    refused: list[T] = []
    for item in items:
        (granted if name(item) in allowed else refused).append(item)
    return granted, refused
