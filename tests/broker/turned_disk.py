"""The in-memory disk for a whole broker: its faults, its room and its time of day are in the test's hands."""

from __future__ import annotations

from tests.storage.fault_env import FaultEnv


class TurnedDisk(FaultEnv):
    """A FaultEnv as InProcessBroker takes it."""

    @property
    def ms(self) -> int:
        return self.time_ms

    @ms.setter
    def ms(self, ms: int) -> None:
        self.time_ms = ms
