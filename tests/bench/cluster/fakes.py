"""Stands in for a cluster."""

from __future__ import annotations

from typing import Any


class FakeCluster:
    """Counts its starts and waits for deletions; `cpu` is what its nodes have used, in seconds."""

    def __init__(self, name: str = "a", cpu: dict[int, float] | None = None) -> None:
        self.name = name
        self.starts = self.waits = 0
        self.lasting: dict[str, int] = {}
        self.cpu = cpu or {}

    def start(self) -> None:
        self.starts += 1
        self.lasting.clear()

    def wait_until_deleted(self) -> None:
        self.waits += 1

    def cpu_s(self) -> dict[int, float]:
        return dict(self.cpu)


def fake_cluster(name: str = "a", cpu: dict[int, float] | None = None) -> Any:
    """As any type that a test needs."""
    return FakeCluster(name, cpu)
