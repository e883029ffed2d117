"""TokenSweeper: removes expired delegation tokens from the metadata at each delegation.token.expiry.check.interval.ms.

Source: org.apache.kafka.controller.QuorumController, its task that expires delegation tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from barnabas.broker.controller.embedded import Decide, Decision, Failed, R
from barnabas.broker.controller.token_admin import MAX_REMOVALS, sweep
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.timer import Timer, TimerHandle

logger = logging.getLogger("barnabas.controller")


class Changes(Protocol):
    """The part of a Controller that is used here."""

    def submit(self, decide: Decide[R], failed: Failed[R]) -> Pending[R]: ...


class TokenSweeper:
    """Lives on the event loop. `now_ms` is the time of day."""

    def __init__(
        self, controller: Changes, timer: Timer, now_ms: Callable[[], int], interval_ms: int
    ) -> None:
        self._controller = controller
        self._timer = timer
        self._now_ms = now_ms
        self._interval_ms = interval_ms
        self._handle: TimerHandle | None = None
        self._is_running = False

    def start(self) -> None:
        self._is_running = True
        self._sweep_in(self._interval_ms)

    def stop(self) -> None:
        self._is_running = False
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _sweep_in(self, delay_ms: int) -> None:
        if self._is_running:
            self._handle = self._timer.call_at(self._timer.time() + delay_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        self._controller.submit(self._decide, _failed).add_done_callback(self._swept)

    def _decide(self, image: MetadataImage) -> Decision[int]:
        records = sweep(image.tokens, self._now_ms())
        return Decision(len(records), records)

    def _swept(self, removed: int) -> None:
        if removed:
            logger.info("removed %d expired delegation tokens", removed)
        self._sweep_in(0 if removed >= MAX_REMOVALS else self._interval_ms)


def _failed(error: BaseException) -> int:
    logger.warning("expired delegation tokens could not be removed: %s", error)
    return 0
