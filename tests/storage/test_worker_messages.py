"""Frames between a worker and its parent: whatever pieces they arrive in."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.log.cleaning_plan import CleanedSegment, CleaningResult, CleaningStats
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job, Message, Progress, Unpacker, pack

RESULT = CleaningResult((CleanedSegment(0, 100, (0, 50)),), 70, CleaningStats(bytes_read=3))
MESSAGES: list[Message] = [
    Job("clean", {"anything": (1, b"x" * 3000)}),
    Progress(0.5),
    Done(RESULT),
    Failed(FailureKind.DISK, "No space left on device", "Traceback"),
]


@given(st.lists(st.integers(1, 2000)))
def test_messages_come_out_as_they_went_in(cuts: list[int]) -> None:
    stream = b"".join(map(pack, MESSAGES))
    unpacker = Unpacker()
    found: list[Message] = []
    for size in [*cuts, len(stream)]:
        found += unpacker.feed(stream[:size])
        stream = stream[size:]
    assert found == MESSAGES


def test_a_frame_begins_with_its_length() -> None:
    frame = pack(Progress(1.0))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
