"""The names of a segment's files."""

from typing import Final

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Kafka's file name: the base offset in 20 digits, then the suffix."""
    return f"{directory}/{base_offset:020d}{suffix}"
