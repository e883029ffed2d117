"""The compression codecs of record batches, framed as Apache Kafka's own streams frame them.

    gzip    one gzip member or several
    snappy  a header of 16 bytes (82 "SNAPPY" 00, version 1, compatible with 1), then blocks, each of them a
            big-endian int32 length and one raw snappy block (SnappyOutputStream); some clients send nothing
            but one raw block
    lz4     an LZ4 frame of independent blocks; bytes after its end, and size and checksum of the whole content,
            are not checked, as in Kafka's reader
    zstd    one zstd frame or several

Decompression is bounded: DecompressedTooLargeError is raised before the output exceeds `max_bytes`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.errors import (
    CorruptRecordError,
    DecompressedTooLargeError,
    UnsupportedCompressionError,
)

if TYPE_CHECKING:
    from types import ModuleType

Buffer = bytes | bytearray | memoryview

SNAPPY_MAGIC = b"\x82SNAPPY\x00"
SNAPPY_VERSION = 1
SNAPPY_BLOCK_BYTES = 32 * 1024
# A copy element of three bytes yields at most 64, so no honest block claims to unpack to more times itself.
SNAPPY_MAX_RATIO = 22

LZ4_DEFAULT_LEVEL = 9
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_VERSION_1 = 0x40
LZ4_PLAIN_HEADER = (
    b"\x04\x22\x4d\x18\x60\x40\x82"  # version 1, independent blocks of 64 KiB, the header's checksum
)
LZ4_PLAIN_HEADER_BYTES = len(LZ4_PLAIN_HEADER)
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_STORED = 0x80000000
LZ4_SIZE_MASK: Final = 0x7FFFFFFF
LZ4_INDEPENDENT_BLOCKS: Final = 0x20
LZ4_BLOCK_CHECKSUM = 0x10
LZ4_CONTENT_SIZE = 0x08
LZ4_CONTENT_CHECKSUM = 0x04
LZ4_DICTIONARY_ID = 0x01
LZ4_DEPENDENCE: Final = 0x21  # both flags of dependent blocks

ZSTD_DEFAULT_LEVEL = 3
GZIP_DEFAULT_LEVEL = 6

SCRATCH_BYTES = 1024 * 1024

# New pages would cost more than the decompression, so buffers are reused. A buffer in use is not in the list, so that
# two threads never share one.
_scratch: list[bytearray] = []
_INT32 = struct.Struct(">i")
_SNAPPY_VERSIONS = struct.Struct(">ii")


class CompressionType(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The codec as configuration writes it: none, gzip, snappy, lz4, zstd."""
        return self.name.lower()

    @classmethod
    def of(cls, codec: int) -> CompressionType:
        """The codec with this number; raises UnsupportedCompressionError if it does not exist."""
        if not 0 <= codec < len(_CODECS):
            raise UnsupportedCompressionError(f"unknown compression codec {codec}")
        return _CODECS[codec]

    @classmethod
    def of_label(cls, label: str) -> CompressionType:
        """The codec with this name; raises UnsupportedCompressionError if it does not exist."""
        found = cls.__members__.get(label.upper())
        if found is None:
            raise UnsupportedCompressionError(f"unknown compression type {label!r}")
        return found


_CODECS = tuple(CompressionType)


def compress(codec: CompressionType, data: Buffer, level: int | None = None) -> bytes:
    """Packs `data` as Kafka's producer would; `level` is the codec's own scale, None its default."""
    import cramjam

    match codec:
        case CompressionType.NONE:
            return bytes(data)
        case CompressionType.GZIP:
            gzip_level = GZIP_DEFAULT_LEVEL if level is None or level < 0 else level
            return bytes(cramjam.gzip.compress(data, level=gzip_level))
        case CompressionType.SNAPPY:
            return _compress_snappy(cramjam.snappy, memoryview(data))
        case CompressionType.LZ4:
            return _compress_lz4(cramjam.lz4, data, level)
        case CompressionType.ZSTD:
            zstd_level = ZSTD_DEFAULT_LEVEL if level is None else level
            return bytes(cramjam.zstd.compress(data, level=zstd_level))


class Unpacked:
    """The result of `unpacked`: a payload for the duration of a with block, in memory that is reused."""

    __slots__ = ("_codec", "_data", "_max_bytes", "_payload", "_scratch")

    def __init__(self, codec: CompressionType, data: Buffer, max_bytes: int) -> None:
        self._codec = codec
        self._data = data
        self._max_bytes = max_bytes
        self._payload = memoryview(b"")
        self._scratch = bytearray()

    def __enter__(self) -> memoryview:
        try:
            self._scratch = _scratch.pop()
        except IndexError:
            self._scratch = bytearray(SCRATCH_BYTES)
        try:
            self._payload = _unpack(self._codec, self._data, self._max_bytes, self._scratch)
        except BaseException:
            self.__exit__()
            raise
        return self._payload

    def __exit__(self, *_: object) -> None:
        self._payload.release()
        _scratch.append(self._scratch)


def unpacked(codec: CompressionType, data: Buffer, max_bytes: int) -> Unpacked:
    """Decompresses `data`, to at most `max_bytes`, without a copy, for a caller that only reads the payload.

    `with unpacked(...) as payload:` may raise CorruptRecordError for anything that is not a whole stream of the codec,
    and its subclass DecompressedTooLargeError for more than `max_bytes`. The payload is released after the block.
    """
    return Unpacked(codec, data, max_bytes)


def decompress(codec: CompressionType, data: Buffer, max_bytes: int) -> bytes:
    """Decompresses `data`, to at most `max_bytes`, into bytes of its own; raises what `unpacked` raises."""
    with unpacked(codec, data, max_bytes) as payload:
        return bytes(payload)


def _unpack(codec: CompressionType, data: Buffer, max_bytes: int, scratch: bytearray) -> memoryview:
    """The payload, in `scratch` where it fits."""
    import cramjam

    match codec:
        case CompressionType.NONE:
            if len(data) > max_bytes:
                raise _too_large(codec, max_bytes)
            return memoryview(data)
        case CompressionType.GZIP:
            return _unpack_stream(cramjam.gzip, codec, data, max_bytes, scratch)
        case CompressionType.SNAPPY:
            return _unpack_snappy(cramjam, data, max_bytes, scratch)
        case CompressionType.LZ4:
            _check_lz4_descriptor(data)
            payload = _unpack_lz4(memoryview(data), max_bytes, scratch)
            if payload is not None:
                return payload
            return _unpack_stream(cramjam.lz4, codec, _plain_lz4_frame(data), max_bytes, scratch)
        case CompressionType.ZSTD:
            return _unpack_stream(cramjam.zstd, codec, data, max_bytes, scratch)


def _too_large(codec: CompressionType, max_bytes: int) -> DecompressedTooLargeError:
    return DecompressedTooLargeError(f"{codec.label}: unpacks to more than the {max_bytes} bytes allowed")


def _unpack_stream(
    module: ModuleType, codec: CompressionType, data: Buffer, max_bytes: int, scratch: bytearray
) -> memoryview:
    """Unpacks into a buffer of fixed size, and into one four times as large when that was too small.

    Nearly every batch fits in the first buffer. The attempts that fail cost a third of the last one at most, all
    together, and no new buffer is more than four times as large as what comes out: cheaper than taking the stream piece
    by piece, and as safe.
    """
    size = min(SCRATCH_BYTES, max_bytes)
    output = memoryview(scratch)[:size]
    written = _unpack_into(module, codec, data, output)
    while written < 0:
        if size >= max_bytes:
            raise _too_large(codec, max_bytes)
        size = min(4 * size, max_bytes)
        output.release()  # or both would be held while the larger one is made
        output = memoryview(bytearray(size))
        written = _unpack_into(module, codec, data, output)
    return output[:written]


def _unpack_into(module: ModuleType, codec: CompressionType, data: Buffer, output: memoryview) -> int:
    """How many bytes the stream holds, -1 when that is more than `output`; raises CorruptRecordError."""
    import cramjam

    try:
        written: int = module.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        why = str(error)
    else:
        return written
    # This message means that the buffer was too small; any other that the data is damaged.
    if "failed to write whole buffer" in why:
        return -1
    raise CorruptRecordError(f"{codec.label}: {why}")


# -- snappy --


def _compress_snappy(snappy: ModuleType, data: memoryview) -> bytes:
    parts = [SNAPPY_MAGIC, _SNAPPY_VERSIONS.pack(SNAPPY_VERSION, SNAPPY_VERSION)]
    for start in range(0, len(data), SNAPPY_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(data[start : start + SNAPPY_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unpack_snappy(cramjam: ModuleType, data: Buffer, max_bytes: int, scratch: bytearray) -> memoryview:
    blocks = _snappy_blocks(memoryview(data)) if data[:8] == SNAPPY_MAGIC else [memoryview(data)]
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        for block, claimed in zip(blocks, sizes, strict=True):
            if claimed > SNAPPY_MAX_RATIO * len(block):
                raise CorruptRecordError(f"snappy: a block of {len(block)} bytes claims to hold {claimed}")
        size = sum(sizes)
        if size > max_bytes:
            raise _too_large(CompressionType.SNAPPY, max_bytes)
        output = memoryview(scratch if size <= len(scratch) else bytearray(size))[:size]
        start = 0
        for block, claimed in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, output[start : start + claimed])
            start += claimed
    except cramjam.DecompressionError as error:
        why = str(error)
    else:
        return output
    raise CorruptRecordError(why)


def _snappy_blocks(data: memoryview) -> list[memoryview]:
    """The raw blocks in xerial framing; streams may follow each other, each with a header of its own.

    The versions in the header are ignored, as in Kafka's reader.
    """
    blocks = []
    position, end = 0, len(data)
    while position < end:
        if data[position : position + 8] == SNAPPY_MAGIC:
            if end - position < 16:
                raise CorruptRecordError("snappy: the stream ends inside its header")
            position += 16
            continue
        if end - position < 4:
            raise CorruptRecordError("snappy: the stream ends inside a block length")
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 < length <= end - position:
            raise CorruptRecordError(f"snappy: a block claims {length} bytes, {end - position} are left")
        blocks.append(data[position : position + length])
        position += length
    return blocks


# -- lz4 --


def _compress_lz4(lz4: ModuleType, data: Buffer, level: int | None) -> bytes:
    """An LZ4 frame of independent blocks of 64 KiB: Kafka's reader rejects the linked ones that are the default."""
    # Level 9, Kafka's default, stands for its fast compressor, which is below 3 on the library's scale.
    if level is None or level == LZ4_DEFAULT_LEVEL:
        return _compress_lz4_blocks(lz4, memoryview(data))
    compressor = lz4.Compressor(level=level, block_linked=False, content_checksum=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_lz4_blocks(lz4: ModuleType, data: memoryview) -> bytes:
    """The frame that Kafka's Lz4BlockOutputStream writes: without checksums; blocks that do not shrink are stored."""
    parts: list[Buffer] = [LZ4_PLAIN_HEADER]
    for start in range(0, len(data), LZ4_BLOCK_BYTES):
        plain = data[start : start + LZ4_BLOCK_BYTES]
        packed = memoryview(lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(plain) | LZ4_STORED).to_bytes(4, "little"), plain)
    parts.append(bytes(4))
    return b"".join(parts)


def _check_lz4_descriptor(data: Buffer) -> None:
    """Linked blocks and dictionaries are legal LZ4, but Kafka's Lz4BlockInputStream rejects them: consumers fail."""
    if len(data) > 4 and data[4] & LZ4_DEPENDENCE != LZ4_INDEPENDENT_BLOCKS:
        raise CorruptRecordError(
            "lz4: the frame's blocks depend on each other or on a dictionary, which Kafka does not allow"
        )


def _unpack_lz4(data: memoryview, max_bytes: int, scratch: bytearray) -> memoryview | None:
    """A frame as Kafka writes them, block by block, which takes a quarter of the time of the library's stream.

    None for other frames, for content larger than `max_bytes` or `scratch`, and for damaged blocks.
    """
    block_bytes = _lz4_block_bytes(bytes(data[:LZ4_PLAIN_HEADER_BYTES]))
    if not block_bytes:
        return None
    output = memoryview(scratch)[:max_bytes]
    written = _unpack_lz4_blocks(data, output, block_bytes)
    return output[:written] if written >= 0 else None


@lru_cache(maxsize=64)
def _lz4_block_bytes(header: bytes) -> int:
    """How large blocks may be after this header; 0 unless they are independent and it promises nothing else."""
    if header[:5] != LZ4_MAGIC + bytes((LZ4_VERSION_1 | LZ4_INDEPENDENT_BLOCKS,)) or len(header) < 7:
        return 0
    if header[5] & 0x8F or header[5] < 0x40 or xxh32(header[4:6]) >> 8 & 0xFF != header[6]:
        return 0
    return 1 << 2 * (header[5] >> 4) + 8


def _unpack_lz4_blocks(data: memoryview, output: memoryview, block_bytes: int) -> int:
    """Unpacks the blocks behind the header; returns how many bytes they hold, -1 where that fails."""
    import cramjam

    position, written, end = LZ4_PLAIN_HEADER_BYTES, 0, len(data)
    while end - position >= 4:
        size = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if not size & LZ4_SIZE_MASK:  # the end, whether it is marked as stored or not
            return written
        stop = position + (size & LZ4_SIZE_MASK)
        if stop > end or stop - position > block_bytes:
            return -1
        target = output[written : written + block_bytes]
        if not size & LZ4_STORED:
            try:
                block = data[position:stop]
                written += cramjam.lz4.decompress_block_into(block, target, output_len=len(target))
            except cramjam.DecompressionError:
                return -1
        elif stop - position > len(target):
            return -1
        else:
            target[: stop - position] = data[position:stop]
            written += stop - position
        position = stop
    return -1


def _plain_lz4_frame(data: Buffer) -> Buffer:
    """The part of a frame that Kafka's reader reads, as a frame that the library accepts.

    Kafka's Lz4BlockInputStream stops at an end mark, also with the bit for stored blocks, and verifies neither the size
    nor the checksum of the whole content. Damaged frames are returned unchanged.
    """
    view = memoryview(data)
    if len(view) < LZ4_PLAIN_HEADER_BYTES:
        return data
    flags, descriptor_end = view[4], lz4_descriptor_end(data)
    if xxh32(bytes(view[4:descriptor_end])) >> 8 & 0xFF != view[descriptor_end]:
        return data
    blocks_end = _lz4_blocks_end(view, descriptor_end + 1, 4 if flags & LZ4_BLOCK_CHECKSUM else 0)
    content_checksum_bytes = 4 if flags & LZ4_CONTENT_CHECKSUM else 0
    if blocks_end < 0 or blocks_end + 4 + content_checksum_bytes > len(view):
        return data
    descriptor = bytes((flags & ~(LZ4_CONTENT_SIZE | LZ4_CONTENT_CHECKSUM), view[5]))
    checksum = bytes([xxh32(descriptor) >> 8 & 0xFF])
    return b"".join((view[:4], descriptor, checksum, view[descriptor_end + 1 : blocks_end], bytes(4)))


def _lz4_blocks_end(data: memoryview, position: int, checksum_bytes: int) -> int:
    """Where the end mark behind the last block lies; -1 when it is missing."""
    while len(data) - position >= 4:
        size = int.from_bytes(data[position : position + 4], "little") & LZ4_SIZE_MASK
        if not size:
            return position
        position += 4 + size + checksum_bytes
    return -1


def lz4_with_right_checksum(data: Buffer) -> bytes:
    """A frame from format v0, where clients computed the header checksum over the wrong bytes, put right.

    Kafka reads v0 frames without looking at that checksum (KIP-31's broken flag descriptor checksum).
    """
    end = lz4_descriptor_end(data)
    return b"".join((data[:end], bytes([xxh32(bytes(data[4:end])) >> 8 & 0xFF]), data[end + 1 :]))


def lz4_descriptor_end(data: Buffer) -> int:
    """Where the byte with the header checksum lies in a frame; raises CorruptRecordError when it is missing."""
    if len(data) < 7:
        raise CorruptRecordError("lz4: the stream ends inside the frame header")
    end = 6 + (8 if data[4] & LZ4_CONTENT_SIZE else 0) + (4 if data[4] & LZ4_DICTIONARY_ID else 0)
    if end >= len(data):
        raise CorruptRecordError("lz4: the stream ends inside the frame header")
    return end


_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK


def xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0, for frame headers: a few bytes each."""
    position, end = 0, len(data)
    if end >= 16:
        lanes = [_PRIME_1 + _PRIME_2, _PRIME_2, 0, -_PRIME_1]
        while end - position >= 16:
            for lane, word in enumerate(struct.unpack_from("<4I", data, position)):
                lanes[lane] = _rotate(lanes[lane] + word * _PRIME_2, 13) * _PRIME_1
            position += 16
        digest = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        digest = _PRIME_5
    digest += end
    while end - position >= 4:
        digest = (
            _rotate(digest + int.from_bytes(data[position : position + 4], "little") * _PRIME_3, 17)
            * _PRIME_4
        )
        position += 4
    for byte in data[position:]:
        digest = _rotate(digest + byte * _PRIME_5, 11) * _PRIME_1
    digest &= _MASK
    digest = (digest ^ digest >> 15) * _PRIME_2 & _MASK
    digest = (digest ^ digest >> 13) * _PRIME_3 & _MASK
    return digest ^ digest >> 16
