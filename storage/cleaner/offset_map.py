"""OffsetMap: the last offset of every key in the dirty part of a log.

Kafka's SkimpyOffsetMap: hashes of keys, not keys, in memory of a fixed maximum, 24 bytes an entry. Kafka hashes with
MD5, for which clients can make two keys that collide, so that one of them loses its last value; here the hash is keyed
with a secret of this map (see `protocol.records.key_table`).
"""

from barnabas.protocol.records.key_table import ENTRY_BYTES, KeyTable
from barnabas.storage.errors import OffsetMapTooSmallError

SECRET_BYTES = 16


class OffsetMap:
    """A table with room for `max_entries` keys: as many as fit into the memory, times the load factor."""

    def __init__(self, memory_bytes: int, load_factor: float, secret: bytes) -> None:
        """`secret`: 16 random bytes. Raises OffsetMapTooSmallError unless more than one key fits."""
        slots = memory_bytes // ENTRY_BYTES
        if slots * load_factor <= 1 or slots < 2:
            raise OffsetMapTooSmallError(
                f"{memory_bytes} bytes filled up to {load_factor} hold no key: cleaning would never make progress; "
                "log.cleaner.dedupe.buffer.size has to be larger, or log.cleaner.threads smaller"
            )
        self.table = KeyTable(memory_bytes, secret)
        self.max_entries = min(int(self.table.slots * load_factor), self.table.slots - 1)

    def __len__(self) -> int:
        """The number of keys."""
        return self.table.size

    @property
    def slots(self) -> int:
        return self.table.slots

    @property
    def latest_offset(self) -> int:
        """The offset (inclusive) up to which the log has been added; -1 at first."""
        return self.table.latest_offset

    def update_latest_offset(self, offset: int) -> None:
        self.table.latest_offset = offset

    def put(self, key: bytes, offset: int) -> None:
        """Sets the offset of a key. Raises ValueError if no slot is free."""
        self.table.put(key, offset)

    def get(self, key: bytes) -> int:
        """The last offset of a key, -1 if absent."""
        return self.table.get(key)

    @property
    def utilization(self) -> float:
        """The part of the slots that is in use, 0 to 1."""
        return self.table.size / self.table.slots
