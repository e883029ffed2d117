"""A process of its own for work that would hold up an event loop: `python -m barnabas.storage.worker`.

It takes jobs from its standard input, one at a time, and answers on its standard output (`worker_messages`). It changes
files through an Env, like all of storage. It ends when its input does, so it outlives neither a parent that closes the
pipe nor one that was killed. A thread watches for that, since a job may take minutes.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from barnabas.storage.env import Env, RealEnv
from barnabas.storage.log.segment_swap import DirectoryBusyError, lock_directory
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job, Progress

if TYPE_CHECKING:
    from barnabas.storage.log.cleaning_plan import CleaningPlan, CleaningResult

NICENESS: Final = 5
"""Gives requests of clients priority when the CPU is busy; a worker still gets about a third of a share."""

EXIT_PARENT_GONE: Final = 0


OnProgress = Callable[[float], None]
JobFunction = Callable[[Env, Any, OnProgress], Any]
"""Takes the job's argument and reports now and then which part is done; its result must pickle."""


def _clean(env: Env, plan: "CleaningPlan", on_progress: OnProgress) -> "CleaningResult":
    """Compacts one log: see `cleaner.clean`. The lock keeps out the worker of a broker that was killed just now."""
    from barnabas.storage.cleaner.cleaner import clean

    lock = lock_directory(env, plan.directory)
    try:
        return clean(env, plan, on_progress)
    finally:
        lock.release()


JOBS: Final[dict[str, JobFunction]] = {"clean": _clean}


def perform(env: Env, job: Job, on_progress: OnProgress) -> Done | Failed:
    """Does a job; its errors become the answer."""
    try:
        return Done(JOBS[job.name](env, job.argument, on_progress))
    except DirectoryBusyError as error:
        return Failed(FailureKind.BUSY, str(error), "")
    except OSError as error:
        return Failed(FailureKind.DISK, str(error), traceback.format_exc())
    except MemoryError:
        return Failed(FailureKind.MEMORY, "not enough memory", traceback.format_exc())
    except Exception as error:
        return Failed(FailureKind.JOB, f"{type(error).__name__}: {error}", traceback.format_exc())


class Worker:
    """The loop of the process, over two streams."""

    def __init__(self, env: Env, jobs: BinaryIO, answers: BinaryIO) -> None:
        self._env = env
        self._input = jobs
        self._output = answers
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()

    def serve(self, on_end: Callable[[], None]) -> None:
        """Runs jobs until the input ends, when the thread that reads it calls `on_end` at once."""
        Thread(target=self._watch, args=(on_end,), name="parent", daemon=True).start()
        while (job := self._jobs.get()) is not None:
            self._send(perform(self._env, job, lambda fraction: self._send(Progress(fraction))))

    def _watch(self, on_end: Callable[[], None]) -> None:
        try:
            while True:
                self._jobs.put(pickle.load(self._input))
        except (EOFError, pickle.UnpicklingError):  # the end, perhaps in the middle of a job
            self._jobs.put(None)
            on_end()

    def _send(self, message: Progress | Done | Failed) -> None:
        pickle.dump(message, self._output, pickle.HIGHEST_PROTOCOL)
        self._output.flush()


def spawn() -> "subprocess.Popen[bytes]":
    """Starts a worker with pipes for all three streams; it inherits nothing else. Blocks for a moment."""
    root = str(Path(__file__).absolute().parents[__name__.count(".")])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "barnabas.storage.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(os.environ, root),
        start_new_session=True,  # a Ctrl-C at the terminal must reach only the broker, which stops its workers
    )


def _environment(inherited: Mapping[str, str], root: str) -> dict[str, str]:
    """The parent's, with the folder that the parent's packages come from before all others."""
    paths = [root, *filter(None, [inherited.get("PYTHONPATH")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths)}


def main() -> None:
    """The process."""
    os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not disturb the answers
    Worker(RealEnv(), os.fdopen(0, "rb"), answers).serve(on_end=lambda: os._exit(EXIT_PARENT_GONE))


if __name__ == "__main__":
    main()
