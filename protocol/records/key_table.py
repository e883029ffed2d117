# cython: annotation_typing=False, wraparound=False, boundscheck=False, initializedcheck=False
"""KeyTable: the offset at which a key was seen last, for as many keys as fit into a given memory.

It holds a hash of 128 bits and an offset for each key, 24 bytes, by open addressing with linear probing. The hash is
keyed with a random secret, so that producers cannot choose keys that collide: two keys with one hash would be
one key to the log cleaner, and the older one's value would be removed. Compiled it is SipHash-2-4 with 128 bits, which
is too slow in Python: BLAKE2b there. A table lives as long as one cleaning, so the two never mix.

This module runs as Python, or compiled by Cython with the types of key_table.pxd (`COMPILED`). Positions are not
checked: the caller has verified that a key lies within its buffer.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

COMPILED: bool = not __file__.endswith((".py", ".pyc"))
ENTRY_BYTES = 24
FIRST_SLOTS = 32 * 1024

_MASK64 = 0xFFFFFFFFFFFFFFFF
_START_0 = 0x736F6D6570736575  # "somepseudorandomlygeneratedbytes", SipHash's own
_START_1 = 0x646F72616E646F6D
_START_2 = 0x6C7967656E657261
_START_3 = 0x7465646279746573


class KeyTable:
    """The table, with room for as many keys as fit into `memory_bytes`.

    It starts small and grows with its content, since every access is at another place: a few keys stay in the
    processor's cache. Growing needs both the old and the new table; the old one is at most an eighth of `memory_bytes`.
    `secret`: 16 random bytes. `latest_offset` is up to where the table knows the log: `put` sets it, and the
    caller sets it beyond records that have no key. `slots` is how many entries it may come to have, one of them empty.
    """

    def __init__(self, memory_bytes: int, secret: bytes) -> None:
        if memory_bytes < 2 * ENTRY_BYTES:
            raise ValueError(f"{memory_bytes} bytes are too few for a table of keys")
        self.slots: int = min(memory_bytes // ENTRY_BYTES, (1 << 32) - 1)
        self.size: int = 0
        self.latest_offset: int = -1
        self._compiled: bool = COMPILED
        self._secret: bytes = secret
        self._secret_0: int = int.from_bytes(secret[:8], "little")
        self._secret_1: int = int.from_bytes(secret[8:16], "little")
        self._allocate(min(self.slots, FIRST_SLOTS))

    def _allocate(self, slots: int) -> None:
        """An empty table."""
        self._held: int = slots
        # The last table of all is filled up to the one slot that stays empty: a search for a missing key ends there.
        self._most: int = slots - 1 if slots == self.slots else slots // 8 * 5
        # In an entry: the two halves of the hash, and the offset + 1, so that zeros are an empty slot.
        self._words = memoryview(_zeros(slots * ENTRY_BYTES)).cast("Q")

    def _grow(self) -> None:
        """Everything goes into a larger table."""
        words = self._words
        end = self._held * 3
        # Straight from an eighth to the whole: while both are there they have not much more than they may.
        self._allocate(self.slots if self._held > self.slots >> 4 else self._held * 2)
        taken = self._words
        at = 0
        while at < end:
            if words[at + 2] != 0:
                to = self._slot(words[at], words[at + 1])
                taken[to] = words[at]
                taken[to + 1] = words[at + 1]
                taken[to + 2] = words[at + 2]
            at += 3

    def put(self, key: Buffer, offset: int) -> None:
        """Sets a later offset of a key. Raises ValueError if the table is full."""
        self._put(bytes(key), 0, len(key), offset)

    def get(self, key: Buffer) -> int:
        """The offset of a key, -1 if it is unknown."""
        return self._get(bytes(key), 0, len(key))

    def hash_of(self, key: bytes) -> tuple[int, int]:
        """SipHash-2-4 of 128 bits, in both forms of this module."""
        return _siphash(key, 0, len(key), self._secret_0, self._secret_1)

    def _slot(self, first: int, second: int) -> int:
        """Where the entry with this hash begins, or the empty slot where it would."""
        words = self._words
        end = self._held * 3
        at = ((first >> 32) * self._held >> 32) * 3
        while words[at + 2] != 0 and (words[at] != first or words[at + 1] != second):
            at += 3
            if at == end:
                at = 0
        return at

    def _hash(self, data: Buffer, start: int, end: int) -> tuple[int, int]:
        if self._compiled:
            return _siphash(data, start, end, self._secret_0, self._secret_1)
        digest = blake2b(data[start:end], digest_size=16, key=self._secret).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")

    def _put(self, data: Buffer, start: int, end: int, offset: int) -> None:
        first, second = self._hash(data, start, end)
        at = self._slot(first, second)
        if self._words[at + 2] == 0:
            if self.size >= self._most:
                if self._held == self.slots:
                    raise ValueError(f"the table of keys is full: {self.size} of {self.slots}")
                self._grow()
                at = self._slot(first, second)
            self._words[at] = first
            self._words[at + 1] = second
            self.size += 1
        self._words[at + 2] = offset + 1
        self.latest_offset = offset

    def _get(self, data: Buffer, start: int, end: int) -> int:
        first, second = self._hash(data, start, end)
        return self._words[self._slot(first, second) + 2] - 1


def _zeros(size: int) -> mmap.mmap:
    """Memory from the system, in large pages if possible: every access to the table is in another page."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        with suppress(OSError):  # a kernel without them
            memory.madvise(advice)
    return memory


# -- SipHash --


def _rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    """SipRounds. The masks are for plain Python; where numbers have 64 bits anyway the compiler drops them."""
    while count:
        v0 = (v0 + v1) & _MASK64
        v2 = (v2 + v3) & _MASK64
        v1 = ((v1 << 13 & _MASK64) | v1 >> 51) ^ v0
        v3 = ((v3 << 16 & _MASK64) | v3 >> 48) ^ v2
        v0 = (v0 << 32 & _MASK64) | v0 >> 32
        v2 = (v2 + v1) & _MASK64
        v0 = (v0 + v3) & _MASK64
        v1 = ((v1 << 17 & _MASK64) | v1 >> 47) ^ v2
        v3 = ((v3 << 21 & _MASK64) | v3 >> 43) ^ v0
        v2 = (v2 << 32 & _MASK64) | v2 >> 32
        count -= 1
    return v0, v1, v2, v3


def _siphash(data: Buffer, start: int, end: int, secret_0: int, secret_1: int) -> tuple[int, int]:
    """SipHash-2-4 with 128 bits (Aumasson and Bernstein) of data[start:end]: its two halves."""
    v0 = secret_0 ^ _START_0
    v1 = secret_1 ^ _START_1 ^ 0xEE
    v2 = secret_0 ^ _START_2
    v3 = secret_1 ^ _START_3
    position = start
    while end - position >= 8:
        word = _word(data, position)
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
        v0 ^= word
        position += 8
    word = 0
    at = end
    while at > position:  # the bytes that are left, the last one first
        at -= 1
        word = word << 8 | data[at]
    size = end - start & 0xFF
    word |= size << 56
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
    v0 ^= word
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ 0xEE, v3, 4)
    first = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _rounds(v0, v1 ^ 0xDD, v2, v3, 4)
    return first, v0 ^ v1 ^ v2 ^ v3


def _word(data: Buffer, at: int) -> int:
    """Eight bytes as a number, the first one lowest."""
    word = data[at + 7]
    word = word << 8 | data[at + 6]
    word = word << 8 | data[at + 5]
    word = word << 8 | data[at + 4]
    word = word << 8 | data[at + 3]
    word = word << 8 | data[at + 2]
    word = word << 8 | data[at + 1]
    return word << 8 | data[at]
