"""Quotas of the clients of an InProcessBroker, which have the client id "test"."""

from __future__ import annotations

from typing import Any

from tests.broker.broker_fixture import InProcessBroker
from tests.conformance.dialogues.quotas import alter
from tests.support.difference import Like

CLIENT = (("client-id", "test"),)


def set_quotas(broker: InProcessBroker, entity: Any = CLIENT, /, **quotas: float | None) -> None:
    """Sets quotas of an entity, by default of the client id that clients have; None removes them."""
    setter = broker.client(version=1, client_id="admin")
    assert setter >> alter((entity, quotas)) << Like(entries=[Like(error_code=0)])


def throttled(ms: int, **fields: object) -> Like:
    """A response with this throttle time, and with these fields."""
    return Like(throttle_time_ms=ms, **fields)


class Ticking:
    """A clock of requests that advances by `tick_s` with each look at it."""

    def __init__(self) -> None:
        self.tick_s = 0.0
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self.tick_s
        return self._now
