"""What a worker process and its parent say to each other over two pipes: frames of a length and a pickle.

    parent to worker    Job
    worker to parent    Progress, again and again; in the end Done or Failed

Format of a frame: the length of the pickle (uint32, big-endian), the pickle. Both sides are the same program, and
nobody else can write to the pipes, so what arrives is trusted.
"""

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

_LENGTH: Final = struct.Struct(">I")


class Job(NamedTuple):
    """What is to be done: the name of one of the worker's jobs, and what that takes."""

    name: str
    argument: Any


class Progress(NamedTuple):
    """How much of the job is done, 0 to 1."""

    fraction: float


class Done(NamedTuple):
    """The job's result."""

    result: Any


class FailureKind(Enum):
    """Why a job failed, as far as it matters to whoever gave it."""

    DISK = "disk"  # an OSError: full, failing, or a file that is not there
    MEMORY = "memory"
    ENDED = "ended"  # the process was killed, crashed or could not be started
    BUSY = "busy"  # another worker, of a broker that was killed, is still in the same directory
    JOB = "job"  # anything else: it would fail again


class Failed(NamedTuple):
    """The job came to nothing; `traceback` is for the log."""

    kind: FailureKind
    text: str
    traceback: str


Message = Job | Progress | Done | Failed


def pack(message: Message) -> bytes:
    """One frame."""
    import pickle  # a broker that never compacts does without

    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Unpacker:
    """Cuts what arrives into messages."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that are whole now."""
        import pickle

        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            body = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield pickle.loads(body)
