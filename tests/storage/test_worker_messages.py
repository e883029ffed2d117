"""Messages between a worker and its parent: pickles, one after the other."""

import io
import pickle

from barnabas.storage.log.cleaning_plan import CleanedSegment, CleaningResult, CleaningStats
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job, Progress

RESULT = CleaningResult((CleanedSegment(0, 100, (0, 50)),), 70, CleaningStats(bytes_read=3))
MESSAGES = [
    Job("clean", {"anything": (1, b"x" * 3000)}),
    Progress(0.5),
    Done(RESULT),
    Failed(FailureKind.DISK, "No space left on device", "Traceback"),
]


def test_messages_are_read_as_they_were_written() -> None:
    stream = io.BytesIO(b"".join(map(pickle.dumps, MESSAGES)))
    assert [pickle.load(stream) for _ in MESSAGES] == MESSAGES
    assert not stream.read()
