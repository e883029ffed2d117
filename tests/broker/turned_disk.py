"""The in-memory disk for a whole broker: the test sets its faults, its space and its time of day."""

from __future__ import annotations

from tests.storage.fault_env import FaultEnv


class TurnedDisk(FaultEnv):
    """A FaultEnv in the form that InProcessBroker requires."""

    @property
    def ms(self) -> int:
        return self.time_ms

    @ms.setter
    def ms(self, ms: int) -> None:
        self.time_ms = ms
