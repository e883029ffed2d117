"""Numbers and flags of the record formats; the layout itself is described in batch.py and legacy.py."""

from __future__ import annotations

import struct
from enum import IntEnum

HEADER = struct.Struct(">qiiBIhiqqqhii")
ENTRY_HEADER = struct.Struct(">qiiB")  # what all formats begin with: offset, length, (epoch or CRC), magic
RECORD_BATCH_OVERHEAD = 61
LOG_OVERHEAD = 12
LEGACY_OVERHEAD_V0 = 14  # CRC, magic, attributes, key length, value length
MAGIC_V0 = 0
MAGIC_V1 = 1
MAGIC_V2 = 2
CRC_POSITION = 17
CRC_START = 21
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1
MAX_SEQUENCE = 0x7FFFFFFF

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024


class TimestampType(IntEnum):
    """Who set a batch's timestamps: nobody (format v0), the producer, or the broker at append."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
