"""Where the records of a TLS stream end, by their headers alone: what is decrypted is left to the TLS library.

A library that is given whole records, and asked for the bytes of as many, never has to answer that it needs more.
A header is a byte for the type, two for the version, two for the size of what follows (RFC 8446, 5.1).
"""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 5
MOST_RECORD_BYTES: Final = HEADER_BYTES + 16 * 1024 + 2048
"""The largest record, with its header: of TLS 1.2, where padding and compression may add 2 KiB."""
TOGETHER_BYTES: Final = 16 * 1024
"""About how much is given to the library at once, which keeps as much room for as long as the connection is open."""
_MAJOR_VERSION: Final = 3


def whole_records(data: memoryview, start: int) -> tuple[int, int]:
    """The end of the whole records from `start` on, and how many they are: at most TOGETHER_BYTES, or one record.

    What can be no record counts as one, with all that follows: the library knows how to end that.
    """
    size, most = len(data), start + TOGETHER_BYTES
    end, count = start, 0
    while end + HEADER_BYTES <= size:
        following = end + HEADER_BYTES + (data[end + 3] << 8 | data[end + 4])
        if following > size or following > most:
            if not _is_record(data, end, following):
                return size, count + 1
            if following > size or count:
                break
        end, count = following, count + 1
    return end, count


def _is_record(data: memoryview, start: int, end: int) -> bool:
    return data[start + 1] == _MAJOR_VERSION and end - start <= MOST_RECORD_BYTES
