"""A BlockingRunner that holds work back until the test lets it go: a disk as slow, or as broken, as the test wants."""

from __future__ import annotations

from collections import deque

from barnabas.broker.waiting.blocking import Done, Work


class HeldRunner:
    """Keeps what is submitted, in order. `held` says how much waits."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Work, Done]] = deque()

    def submit(self, work: Work, done: Done) -> None:
        self._jobs.append((work, done))

    @property
    def held(self) -> int:
        return len(self._jobs)

    def release(self) -> None:
        """Does the oldest job, and tells whoever waits for it."""
        work, done = self._jobs.popleft()
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)

    def release_all(self) -> None:
        """Does everything, and what that leads to."""
        while self._jobs:
            self.release()

    def fail(self, error: BaseException) -> None:
        """The oldest job ends with `error` and leaves nothing behind."""
        _, done = self._jobs.popleft()
        done(error)
