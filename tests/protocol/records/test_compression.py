"""The codecs: Kafka's framing, bounded output, rejection of everything else."""

from __future__ import annotations

import contextlib
import random
import struct
import subprocess
import sys
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records.compression import (
    SCRATCH_BYTES,
    SNAPPY_BLOCK_BYTES,
    CompressionType,
    compress,
    decompress,
    lz4_descriptor_end,
    lz4_with_right_checksum,
    unpacked,
    xxh32,
)
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    DecompressedTooLargeError,
    UnsupportedCompressionError,
)
from tests.protocol.records.message_sets import with_broken_checksum

CODECS = list(CompressionType)
PACKED = CODECS[1:]
SNAPPY_HEADER = bytes.fromhex("82 534e41505059 00 00000001 00000001")
MEBIBYTE = 1 << 20


def test_codecs_by_number_and_name() -> None:
    assert [codec.label for codec in CODECS] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [CompressionType.of(codec) for codec in range(5)] == CODECS
    assert [CompressionType.of_label(codec.label) for codec in CODECS] == CODECS
    with pytest.raises(UnsupportedCompressionError, match="6"):
        CompressionType.of(6)
    with pytest.raises(UnsupportedCompressionError, match="brotli"):
        CompressionType.of_label("brotli")


@settings(deadline=None)
@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=2000), times=st.sampled_from([1, 1, 70]))
def test_round_trip(codec: CompressionType, data: bytes, times: int) -> None:
    plain = data * times
    packed = compress(codec, plain)
    assert decompress(codec, packed, len(plain)) == plain
    assert decompress(codec, memoryview(packed), 1 << 30) == plain
    if plain:
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, packed, len(plain) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_does_not_copy_and_releases_its_memory(codec: CompressionType) -> None:
    plain = b"payload " * 1000
    packed = compress(codec, plain)
    with unpacked(codec, packed, MEBIBYTE) as payload:
        assert payload == plain
        with unpacked(codec, compress(codec, b"another"), MEBIBYTE) as inner:
            assert bytes(inner) == b"another"
        assert payload == plain
    with pytest.raises(ValueError, match="released"):
        bytes(payload)


@pytest.mark.parametrize("codec", CODECS)
def test_a_failed_decompression_releases_its_memory(codec: CompressionType) -> None:
    packed = compress(codec, bytes(1000))
    for _ in range(3):
        with pytest.raises(DecompressedTooLargeError), unpacked(codec, packed, 999):
            pytest.fail("it was unpacked")
    with unpacked(codec, packed, 1000) as payload:
        assert payload == bytes(1000)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (CompressionType.GZIP, (-1, 1, 9)),
        (CompressionType.LZ4, (9, 3, 17)),
        (CompressionType.ZSTD, (-50, 1, 22)),
    ],
)
def test_levels_are_applied(codec: CompressionType, levels: tuple[int, ...]) -> None:
    plain = b"".join(b"%d squared is %d. " % (i, i * i) for i in range(3000))
    packed = [compress(codec, plain, level) for level in levels]
    assert all(decompress(codec, data, len(plain)) == plain for data in packed)
    assert len({len(data) for data in packed}) > 1


def test_snappy_is_framed_as_java_does() -> None:
    plain = b"x" * SNAPPY_BLOCK_BYTES + b"rest"
    packed = compress(CompressionType.SNAPPY, plain)
    assert packed[:16] == SNAPPY_HEADER
    (first,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == plain[:SNAPPY_BLOCK_BYTES]
    assert compress(CompressionType.SNAPPY, b"") == SNAPPY_HEADER


def test_snappy_without_framing_and_in_several_streams() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"as librdkafka sends it"))
    assert decompress(CompressionType.SNAPPY, raw, 100) == b"as librdkafka sends it"
    two = compress(CompressionType.SNAPPY, b"one, ") + compress(CompressionType.SNAPPY, b"two")
    assert decompress(CompressionType.SNAPPY, two, 100) == b"one, two"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (SNAPPY_HEADER + b"\0\0\0", "inside a block length"),
        (SNAPPY_HEADER + b"\0\0\0\5abc", "claims 5 bytes, 3 are left"),
        (SNAPPY_HEADER + b"\xff\xff\xff\xff", "claims -1 bytes"),
        (SNAPPY_HEADER + b"\0\0\0\0", "claims 0 bytes"),
        (SNAPPY_HEADER[:12], "corrupt|header"),
        (SNAPPY_HEADER + SNAPPY_HEADER[:9], "inside its header"),
        (b"\xff\xff\xff\xff\x0f" + b"\0" * 10, "claims to hold 4294967295"),
    ],
)
def test_invalid_snappy_is_rejected(data: bytes, message: str) -> None:
    with pytest.raises(CorruptRecordError, match=message):
        decompress(CompressionType.SNAPPY, data, 1 << 30)


@pytest.mark.parametrize("plain", [b"", b"Barnabas " * 9, bytes(200_000)], ids=["empty", "small", "blocks"])
def test_lz4_is_framed_so_that_kafka_reads_it(plain: bytes) -> None:
    packed = compress(CompressionType.LZ4, plain)
    magic, flags, block_size = struct.unpack_from("<IBB", packed)
    assert magic == 0x184D2204
    assert flags & 0b11101111 == 0b01100000  # version 1, independent blocks, no content size and checksum
    assert block_size == 0x40  # 64 KiB
    assert decompress(CompressionType.LZ4, packed, MEBIBYTE) == plain


NOISE = random.Random(4).randbytes(70_000)  # does not shrink: stored as it is
LZ4_CONTENTS = [b"Barnabas " * 9, NOISE, bytes(200_000) + NOISE, bytes(MEBIBYTE), bytes(MEBIBYTE + 1)]


@pytest.mark.parametrize("plain", LZ4_CONTENTS, ids=["small", "stored", "blocks", "scratch", "larger"])
def test_lz4_block_by_block_equals_the_library(plain: bytes) -> None:
    packed = compress(CompressionType.LZ4, plain)
    assert bytes(cramjam.lz4.decompress(packed)) == plain
    assert decompress(CompressionType.LZ4, packed, len(plain)) == plain
    with pytest.raises(DecompressedTooLargeError):
        decompress(CompressionType.LZ4, packed, len(plain) - 1)


def as_kafka_reads_lz4(data: bytes) -> bytes | None:
    """The output of Kafka's Lz4BlockInputStream for a frame, None where it throws; written after that class."""
    if len(data) < 7 or data[:4] != b"\x04\x22\x4d\x18":
        return None
    flags, descriptor = data[4], data[5]
    if flags & 0xE3 != 0x60 or descriptor & 0x8F or descriptor < 0x40:
        return None
    position = 6 + (8 if flags & 0x08 else 0)
    if position >= len(data) or xxh32(data[4:position]) >> 8 & 0xFF != data[position]:
        return None
    position += 1
    largest, content = 1 << 2 * (descriptor >> 4) + 8, b""
    while position + 4 <= len(data):
        size = int.from_bytes(data[position : position + 4], "little")
        position += 4
        length = size & 0x7FFFFFFF
        if length == 0:
            return content if not flags & 0x04 or position + 4 <= len(data) else None
        block = data[position : position + length]
        position += length
        if length > largest or len(block) < length:
            return None
        try:
            content += block if size & 0x80000000 else unpacked_block(block, largest)
        except cramjam.DecompressionError:
            return None
        if flags & 0x10:
            if xxh32(block) != int.from_bytes(data[position : position + 4], "little"):
                return None
            position += 4
    return None


def unpacked_block(block: bytes, largest: int) -> bytes:
    output = bytearray(largest)
    return bytes(output[: cramjam.lz4.decompress_block_into(block, output, output_len=largest)])


def assert_read_as_kafka_reads_it(data: bytes) -> None:
    expected = as_kafka_reads_lz4(data)
    if expected is None:
        with pytest.raises(CorruptRecordError):
            decompress(CompressionType.LZ4, data, 3 * MEBIBYTE)
    else:
        assert decompress(CompressionType.LZ4, data, 3 * MEBIBYTE) == expected


@given(position=st.integers(0, 70_100), byte=st.integers(0, 255), cut=st.integers(0, 70_100) | st.none())
def test_damaged_lz4_is_rejected_as_by_kafka(position: int, byte: int, cut: int | None) -> None:
    for plain in (b"Barnabas " * 9, NOISE):
        packed = bytearray(compress(CompressionType.LZ4, plain))
        packed[position % len(packed)] = byte
        assert_read_as_kafka_reads_it(bytes(packed[:cut]))


def lz4_frame(plain: bytes, *, flags: int = 0x60, extra: bytes = b"", end: bytes = bytes(4)) -> bytes:
    """A frame of stored blocks of 64 KiB, whose header has the correct checksum."""
    descriptor = bytes((flags, 0x40)) + extra
    parts = [b"\x04\x22\x4d\x18", descriptor, bytes([xxh32(descriptor) >> 8 & 0xFF])]
    for start in range(0, len(plain), 1 << 16):
        block = plain[start : start + (1 << 16)]
        parts += [(len(block) | 0x80000000).to_bytes(4, "little"), block]
        if flags & 0x10:
            parts.append(xxh32(block).to_bytes(4, "little"))
    return b"".join((*parts, end))


@pytest.mark.parametrize("plain", [b"Barnabas " * 9, bytes(MEBIBYTE + 1)], ids=["small", "larger"])
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"end": b"\0\0\0\x80"}, id="an end that is marked as stored"),
        pytest.param({"end": bytes(4) + b"what"}, id="something behind the end"),
        pytest.param({"end": bytes(4) + compress(CompressionType.LZ4, b"more")}, id="another frame"),
        pytest.param({"flags": 0x68, "extra": (7).to_bytes(8, "little")}, id="another content size"),
        pytest.param({"flags": 0x64, "end": bytes(4) + b"what"}, id="another content checksum"),
        pytest.param({"flags": 0x70, "end": b"\0\0\0\x80"}, id="block checksums"),
    ],
)
def test_lz4_that_only_kafka_accepts(plain: bytes, fields: Any) -> None:
    if fields.get("flags") == 0x70:
        plain = plain[:1000]  # the checksum of the tests is slow
    data = lz4_frame(plain, **fields)
    assert as_kafka_reads_lz4(data) == plain
    assert decompress(CompressionType.LZ4, data, 3 * MEBIBYTE) == plain
    with pytest.raises(DecompressedTooLargeError):
        decompress(CompressionType.LZ4, data, len(plain) - 1)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"end": b""}, id="no end"),
        pytest.param({"flags": 0x64}, id="no content checksum"),
        pytest.param({"flags": 0x64, "end": bytes(4) + b"abc"}, id="half a content checksum"),
        pytest.param({"flags": 0x61, "extra": bytes(4)}, id="a dictionary"),
        pytest.param({"flags": 0x62}, id="a reserved bit"),
        pytest.param({"flags": 0x20}, id="another version"),
        pytest.param({"flags": 0x40}, id="linked blocks"),
    ],
)
def test_lz4_that_kafka_rejects(fields: Any) -> None:
    data = lz4_frame(b"Barnabas " * 9, **fields)
    assert as_kafka_reads_lz4(data) is None
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.LZ4, data, MEBIBYTE)


def test_lz4_with_linked_blocks_is_rejected() -> None:
    linked = cramjam.lz4.Compressor(block_linked=True)
    linked.compress(b"x" * 100)
    with pytest.raises(CorruptRecordError, match="depend on each other"):
        decompress(CompressionType.LZ4, bytes(linked.finish()), MEBIBYTE)


@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_of_other_writers(checksum: bool) -> None:
    writer = cramjam.lz4.Compressor(block_linked=False, content_checksum=checksum)
    writer.compress(b"Barnabas " * 50)
    assert decompress(CompressionType.LZ4, bytes(writer.finish()), MEBIBYTE) == b"Barnabas " * 50


def test_the_lz4_header_checksum_of_format_v0() -> None:
    good = compress(CompressionType.LZ4, b"Barnabas " * 50)
    broken = with_broken_checksum(good)
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.LZ4, broken, MEBIBYTE)
    assert lz4_with_right_checksum(broken) == good
    sized = bytes.fromhex("04224d18 68 40") + (450).to_bytes(8, "little") + b"?" + good[7:]
    assert lz4_descriptor_end(sized) == 14
    assert decompress(CompressionType.LZ4, lz4_with_right_checksum(sized), MEBIBYTE) == b"Barnabas " * 50
    for cut in (good[:6], sized[:14]):
        with pytest.raises(CorruptRecordError, match="inside the frame header"):
            lz4_descriptor_end(cut)


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0x02CC5D05), (b"abc", 0x32D153FF), (b"Nobody inspects the spammish repetition", 0xE2293B2F)],
)
def test_xxh32(data: bytes, digest: int) -> None:
    assert xxh32(data) == digest


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.ZSTD])
def test_several_frames_are_one_stream(codec: CompressionType) -> None:
    two = compress(codec, b"one, ") + compress(codec, b"two")
    assert decompress(codec, two, 100) == b"one, two"


@pytest.mark.parametrize("codec", PACKED)
def test_compressed_data_cut_at_every_byte(codec: CompressionType) -> None:
    plain = b"Barnabas " * 9
    packed = compress(codec, plain)
    # Between two snappy blocks nothing shows that a block is missing.
    whole = {len(SNAPPY_HEADER)} if codec == CompressionType.SNAPPY else set()
    for end in set(range(len(packed))) - whole:
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:end], MEBIBYTE)


@settings(deadline=None)
@given(
    codec=st.sampled_from(PACKED),
    plain=st.binary(max_size=200),
    damage=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
    tail=st.binary(max_size=8),
)
def test_any_bytes_are_decompressed_or_rejected(
    codec: CompressionType, plain: bytes, damage: Any, tail: bytes
) -> None:
    packed = bytearray(compress(codec, plain) + tail)
    for position, byte in damage:
        packed[position % len(packed)] = byte
    with contextlib.suppress(CorruptRecordError):
        assert len(decompress(codec, packed, MEBIBYTE)) <= MEBIBYTE


@pytest.mark.parametrize("codec", PACKED)
def test_output_larger_than_the_first_buffer(codec: CompressionType) -> None:
    plain = bytes(5 * SCRATCH_BYTES)
    packed = compress(codec, plain)
    assert decompress(codec, packed, len(plain)) == plain
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, packed, len(plain) - 1)


# In a process of its own, whose peak memory is not that of other tests.
BOMB = """
import resource, sys, cramjam
from barnabas.protocol.records.compression import CompressionType, decompress
from barnabas.protocol.records.errors import DecompressedTooLargeError

codec = CompressionType.of_label(sys.argv[1])
options = {"block_linked": False} if codec == CompressionType.LZ4 else {}
packer = getattr(cramjam, codec.label).Compressor(**options)
for _ in range(256):
    packer.compress(bytes(1 << 20))
bomb = bytes(packer.finish())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, 4 << 20)
except DecompressedTooLargeError:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_bombs_do_not_fill_the_memory(codec: CompressionType) -> None:
    """256 MiB compressed, and 4 MiB allowed: the process grows by a few MiB at most."""
    command = [sys.executable, "-c", BOMB, codec.label]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 16 * MEBIBYTE


def test_a_zstd_frame_that_claims_a_huge_window_is_rejected() -> None:
    window_of_two_gib = bytes.fromhex("28b52ffd 00 a8 010000")
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.ZSTD, window_of_two_gib, 1 << 30)
