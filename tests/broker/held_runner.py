"""A BlockingRunner that holds work back until the test releases it, as a slow or broken disk would."""

from __future__ import annotations

from collections import deque

from barnabas.broker.waiting.blocking import Done, Work


class HeldRunner:
    """Keeps submitted work, in order. `held` is the number of jobs that wait."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Work, Done]] = deque()

    def submit(self, work: Work, done: Done) -> None:
        self._jobs.append((work, done))

    @property
    def held(self) -> int:
        return len(self._jobs)

    def release(self) -> None:
        """Runs the oldest job, and reports its result."""
        work, done = self._jobs.popleft()
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)

    def release_all(self) -> None:
        """Runs all jobs, and those that they cause."""
        while self._jobs:
            self.release()

    def fail(self, error: BaseException) -> None:
        """Fails the oldest job with `error`, without running it."""
        _, done = self._jobs.popleft()
        done(error)
