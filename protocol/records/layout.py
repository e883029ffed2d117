"""Numbers and flags of the record formats; the layout itself is described in batch.py and legacy.py."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

HEADER: Final = struct.Struct(">qiiBIhiqqqhii")
ENTRY_HEADER: Final = struct.Struct(
    ">qiiB"
)  # what all formats begin with: offset, length, (epoch or CRC), magic
RECORD_BATCH_OVERHEAD: Final = 61
LOG_OVERHEAD: Final = 12
LEGACY_OVERHEAD_V0: Final = 14  # CRC, magic, attributes, key length, value length
MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_V2: Final = 2

# Where the fields of a v2 header lie; length and magic lie there in all formats.
LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC_START: Final = 21
ATTRIBUTES_POSITION: Final = 21
ATTRIBUTES_LOW_POSITION: Final = 22  # the byte of the attributes that has bits
LAST_OFFSET_DELTA_POSITION: Final = 23
BASE_TIMESTAMP_POSITION: Final = 27
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_ID_POSITION: Final = 43
PRODUCER_EPOCH_POSITION: Final = 51
BASE_SEQUENCE_POSITION: Final = 53
RECORD_COUNT_POSITION: Final = 57
LEGACY_TIMESTAMP_POSITION: Final = 18  # in format v1

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 0x7FFFFFFF

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40
KNOWN_ATTRIBUTES_MASK: Final = 0x7F
"""All attributes that there are."""

DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024


class TimestampType(IntEnum):
    """Who set a batch's timestamps: nobody (format v0), the producer, or the broker at append."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
