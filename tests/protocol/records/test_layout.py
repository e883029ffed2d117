"""The numbers of the record layout agree with its structs."""

import struct

from barnabas.protocol.records import layout

FIELDS = (
    ("LENGTH_POSITION", ">q"),
    ("LEADER_EPOCH_POSITION", ">qi"),
    ("MAGIC_POSITION", ">qii"),
    ("CRC_POSITION", ">qiiB"),
    ("ATTRIBUTES_POSITION", ">qiiBI"),
    ("LAST_OFFSET_DELTA_POSITION", ">qiiBIh"),
    ("BASE_TIMESTAMP_POSITION", ">qiiBIhi"),
    ("MAX_TIMESTAMP_POSITION", ">qiiBIhiq"),
    ("PRODUCER_ID_POSITION", ">qiiBIhiqq"),
    ("PRODUCER_EPOCH_POSITION", ">qiiBIhiqqq"),
    ("BASE_SEQUENCE_POSITION", ">qiiBIhiqqqh"),
    ("RECORD_COUNT_POSITION", ">qiiBIhiqqqhi"),
)


def test_positions_are_those_of_the_header() -> None:
    for name, before in FIELDS:
        assert layout.HEADER.format.startswith(before), name
        assert getattr(layout, name) == struct.calcsize(before), name
    assert layout.ATTRIBUTES_LOW_POSITION == layout.ATTRIBUTES_POSITION + 1
    assert layout.CRC_START == layout.ATTRIBUTES_POSITION
    assert layout.LOG_OVERHEAD == layout.LENGTH_POSITION + 4


def test_sizes_are_those_of_the_structs() -> None:
    assert layout.HEADER.size == layout.RECORD_BATCH_OVERHEAD == layout.LENGTH_MAGIC_ATTRIBUTES.size
    assert layout.HEADER_TO_MAX_TIMESTAMP.size == layout.MAX_TIMESTAMP_END
    assert layout.ENTRY_HEADER.size == layout.ENTRY_HEADER_BYTES
    assert layout.LEADER_PREFIX.size == layout.MAGIC_POSITION


def test_length_magic_attributes() -> None:
    header = layout.HEADER.pack(7, 99, 3, 2, 0, 0x31, 0, 0, 0, -1, -1, -1, 1)
    assert layout.LENGTH_MAGIC_ATTRIBUTES.unpack(header) == (99, 2, 0x31)
