"""The layout of record batches in numbers, defined once for all that read or write them; batch.py and legacy.py
describe the formats. The .pxd files repeat some as C literals, which the tests of compiled modules cover.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

HEADER: Final = struct.Struct(">qiiBIhiqqqhii")
"""All fields of a v2 header."""
HEADER_TO_MAX_TIMESTAMP: Final = struct.Struct(">qiiBIhiqq")
"""The fields of a v2 header up to the max timestamp."""
LENGTH_MAGIC_ATTRIBUTES: Final = struct.Struct(">8xi4xB5xB38x")
"""Length, magic and the low byte of the attributes; needs all bytes of a v2 header."""
LEADER_PREFIX: Final = struct.Struct(">qii")
"""Base offset, length and leader epoch: the fields before the magic, of which the leader sets two."""
ENTRY_HEADER: Final = struct.Struct(">qiiB")
"""The first fields of all formats: offset, length, leader epoch or CRC, magic."""
ENTRY_HEADER_BYTES: Final = 17
RECORD_BATCH_OVERHEAD: Final = 61
LOG_OVERHEAD: Final = 12
LEGACY_OVERHEAD_V0: Final = 14  # CRC, magic, attributes, key length, value length
MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_V2: Final = 2

# The positions of the fields in a v2 header; length and magic have them in all formats.
LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC_START: Final = 21
ATTRIBUTES_POSITION: Final = 21
ATTRIBUTES_LOW_POSITION: Final = 22  # the byte of the attributes with all known bits
LAST_OFFSET_DELTA_POSITION: Final = 23
BASE_TIMESTAMP_POSITION: Final = 27
MAX_TIMESTAMP_POSITION: Final = 35
MAX_TIMESTAMP_END: Final = 43
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
"""The attributes that exist."""

DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024


class TimestampType(IntEnum):
    """Who set a batch's timestamps: the producer, the broker at append, or neither (format v0)."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
