"""The network between brokers, controller and clients: requests and responses that get lost, late, or held.

A cut direction loses everything. A stalled one keeps everything, and delivers it when the stall ends: so a request may
arrive long after its sender gave up, and a response may come from a process that has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from barnabas.broker.pending import Pending
from tests.simulation.clock import Clock

Name = int | str
"""A broker's id, "c" for the controller, or the name of a client."""


class Host(Protocol):
    """Where a request arrives; `is_up` is false while there is no process."""

    @property
    def is_up(self) -> bool: ...

    def receive(self, callback: Callable[[], None]) -> None:
        """Runs the code of the process: later, while it is paused."""


class Network:
    """Delivers messages between hosts."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self.hosts: dict[Name, Host] = {}
        self.cut: set[tuple[Name, Name]] = set()
        self._held: dict[tuple[Name, Name], list[Callable[[], None]]] = {}
        self.loss = 0.0
        self.slow = 0.0

    # ---- faults

    def stall(self, source: Name, target: Name) -> None:
        self._held.setdefault((source, target), [])

    @property
    def is_whole(self) -> bool:
        """Whether no fault acts."""
        return not (self.cut or self._held or self.loss or self.slow)

    def heal(self) -> None:
        """Ends all faults; what was held arrives now."""
        self.cut.clear()
        self.loss = self.slow = 0.0
        held, self._held = self._held, {}
        for messages in held.values():
            for deliver in messages:
                self._clock.call_later(self._delay(), deliver)

    def _delay(self) -> float:
        if self.slow and self._rng.random() < self.slow:
            return self._rng.uniform(0.02, 0.8)
        return 0.0003 + self._rng.random() * 0.002

    def _send(self, source: Name, target: Name, deliver: Callable[[], None]) -> None:
        if (source, target) in self.cut or (self.loss and self._rng.random() < self.loss):
            return
        held = self._held.get((source, target))
        if held is not None:
            held.append(deliver)
        else:
            self._clock.call_later(self._delay(), deliver)

    # ---- requests

    def rpc(self, source: Name, target: Name, serve: Callable[[], Any], timeout_s: float) -> Pending[Any]:
        """Has `target` run `serve`, and completes with its result, or with None where that is not known."""
        pending: Pending[Any] = Pending()

        def complete(result: Any) -> None:
            if not pending.done:
                pending.complete(result)

        def respond(result: Any) -> None:
            self._send(target, source, lambda: complete(result))

        def arrive() -> None:
            host = self.hosts[target]
            if not host.is_up:
                self._send(target, source, lambda: complete(None))
                return
            host.receive(run)

        def run() -> None:
            result = serve()
            if isinstance(result, Pending):
                result.add_done_callback(respond)
            else:
                respond(result)

        self._send(source, target, arrive)
        self._clock.call_later(timeout_s, lambda: complete(None))
        return pending
