"""The messages between a worker process and its parent: pickles, one after the other, over two pipes.

    parent to worker    Job
    worker to parent    Progress, any number of times; in the end Done or Failed

Both sides are the same program, and no other process can write to the pipes, so what arrives is trusted.
"""

from enum import Enum
from typing import Any, NamedTuple


class Job(NamedTuple):
    """The name of one of the worker's jobs, and its argument."""

    name: str
    argument: Any


class Progress(NamedTuple):
    """The fraction of the job that is done, 0 to 1."""

    fraction: float


class Done(NamedTuple):
    """The job's result."""

    result: Any


class FailureKind(Enum):
    """Why a job failed, as far as the caller acts on it."""

    DISK = "disk"  # an OSError: full, failing, or a missing file
    MEMORY = "memory"
    ENDED = "ended"  # the process was killed, crashed or could not be started
    BUSY = "busy"  # the worker of a killed broker still holds the directory
    JOB = "job"  # any other error, which a retry would repeat


class Failed(NamedTuple):
    """The job failed; `traceback` is for the log."""

    kind: FailureKind
    text: str
    traceback: str
