"""TransactionIndex (.txnindex): which transactions were aborted in a segment."""

import struct
from contextlib import closing
from typing import Final, NamedTuple

from barnabas.storage.env import Env, remove_if_exists, write_fully
from barnabas.storage.errors import CorruptIndexError, suppress_no_space
from barnabas.storage.offsets import AbortedTransaction


class AbortedTxn(NamedTuple):
    """One entry of the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """.txnindex: the transactions that were aborted in this segment; without any there is no file.

    Format: entries of 34 bytes, big-endian, in the order in which the transactions were aborted: version 0 (int16),
    producer id, first offset, last offset (that of the marker), last stable offset afterwards (int64 each):

        00 00  00 00 00 00 00 00 03 e8  00 00 00 00 00 00 00 0a  00 00 00 00 00 00 00 14  00 00 00 00 00 00 00 15
        producer 1000 aborted what it wrote from offset 10 on by the marker at 20; then 21 was the last stable offset

    Recovery of a segment rebuilds it from the .log.
    """

    __slots__ = ("_env", "_transactions", "_unwritten", "base_offset", "path")

    ENTRY: Final = struct.Struct(">hqqqq")

    def __init__(self, env: Env, path: str, base_offset: int) -> None:
        self._env = env
        self._transactions: list[AbortedTxn] | None = None
        self._unwritten = 0  # the number of last entries that are not in the file
        self.base_offset = base_offset
        self.path = path

    @property
    def transactions(self) -> list[AbortedTxn]:
        """All entries, read at first use. Raises CorruptIndexError."""
        if self._transactions is None:
            self._transactions = self._read()
        return self._transactions

    def _read(self) -> list[AbortedTxn]:
        try:
            data = self._env.read_file(self.path)
        except FileNotFoundError:
            return []
        if len(data) % self.ENTRY.size:
            raise CorruptIndexError(
                f"{self.path} has {len(data)} bytes, which is no multiple of {self.ENTRY.size}"
            )
        entries: list[AbortedTxn] = []
        least = self.base_offset
        for version, *fields in self.ENTRY.iter_unpack(data):
            if version != 0:
                raise CorruptIndexError(f"{self.path} has an entry of version {version}")
            entry = AbortedTxn(*fields)
            if entry.last_offset < least or not 0 <= entry.first_offset <= entry.last_offset:
                raise CorruptIndexError(
                    f"{self.path} has a transaction from {entry.first_offset} to {entry.last_offset} where it "
                    f"should end at {least} or later"
                )
            least = entry.last_offset + 1
            entries.append(entry)
        return entries

    def append(self, transaction: AbortedTxn) -> None:
        """Adds an entry to memory and file. Raises OSError.

        A full disk is no error yet, since the log has the marker: `write_pending` tries again.
        """
        self.transactions.append(transaction)
        self._unwritten += 1
        with suppress_no_space():
            self.write_pending()

    def write_pending(self) -> None:
        """Writes the entries that are not in the file yet. Raises OSError."""
        if not self._unwritten:
            return
        entries = self.transactions
        written = len(entries) - self._unwritten
        data = b"".join(self.ENTRY.pack(0, *entry) for entry in entries[written:])
        with closing(self._env.open(self.path, create=True)) as file:
            write_fully(file, (data,), written * self.ENTRY.size, len(data))
        self._unwritten = 0

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions that overlap the range, and whether they are all: no later segment has more."""
        found = []
        for transaction in self.transactions:
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound_offset:
                found.append(AbortedTransaction(transaction.producer_id, transaction.first_offset))
            if transaction.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drops the transactions whose marker is at or after `offset`."""
        entries = self.transactions
        keep = sum(1 for entry in entries if entry.last_offset < offset)
        if keep < len(entries):
            self._unwritten = max(self._unwritten - (len(entries) - keep), 0)
            with closing(self._env.open(self.path, create=True)) as file:
                file.truncate((keep - self._unwritten) * self.ENTRY.size)
            del entries[keep:]

    def reset(self) -> None:
        """Removes all entries and the file."""
        remove_if_exists(self._env, self.path)
        self._transactions, self._unwritten = [], 0

    def renamed(self, path: str) -> None:
        self.path = path
