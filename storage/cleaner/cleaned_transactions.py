"""Which transactional data and markers the log cleaner may drop: Kafka's CleanedTransactionMetadata.

The .txnindex files list the aborted transactions. Their data are dropped at once. A marker is dropped only after an
earlier cleaning has dropped all data of its transaction, and after its delete horizon; until then the marker of an
aborted transaction stays, and so does its entry in the transaction index of the cleaned segment.
"""

import heapq
from typing import Final

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.control import ControlRecordType, control_record_type
from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.names import TXN_INDEX_SUFFIX, segment_path
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex

OFFSET_DIGITS: Final = 20


class AbortedTransactionFiles:
    """The .txnindex files of a log, also of segments that are not cleaned, which may hold the marker."""

    def __init__(self, env: Env, directory: str) -> None:
        self._env = env
        self._directory = directory
        self._base_offsets = sorted(
            int(name[:OFFSET_DIGITS])
            for name in env.listdir(directory)
            if name.endswith(TXN_INDEX_SUFFIX) and name[:OFFSET_DIGITS].isdigit()
        )

    def overlapping(self, segment_base_offset: int, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that overlap offsets from `first_offset` on and below `end_offset`.

        `segment_base_offset` is that of the segment with `first_offset`. Raises CorruptIndexError, OSError.
        """
        found = []
        for base_offset in self._base_offsets:
            if base_offset < segment_base_offset:
                continue
            for entry in self._read(base_offset):
                if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    def _read(self, base_offset: int) -> list[AbortedTxn]:
        path = segment_path(self._directory, base_offset, TXN_INDEX_SUFFIX)
        data = self._env.read_file(path)
        entry_bytes = TransactionIndex.ENTRY.size
        entries = []
        # The broker may be writing the last segment's index: a partial entry at its end does not count.
        for version, *fields in TransactionIndex.ENTRY.iter_unpack(
            data[: len(data) // entry_bytes * entry_bytes]
        ):
            if version != 0:
                raise CorruptIndexError(f"{path} has an entry of version {version}")
            entries.append(AbortedTxn(*fields))
        return entries


class CleanedTransactions:
    """Follows the transactions through the batches of a log, oldest first."""

    def __init__(self) -> None:
        # A heap by first offset, then by order of arrival.
        self._coming: list[tuple[int, int, AbortedTxn]] = []
        self._number = 0
        self._aborted: dict[int, AbortedTxn] = {}  # by producer id: those whose marker is still to come
        self._has_data: set[int] = set()  # those of them that have data left
        self._committed: set[int] = set()  # producer ids with data of a transaction that is not aborted
        self._retained: list[AbortedTxn] = []

    def add_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Adds the aborted transactions of the next batches; duplicates are ignored."""
        for transaction in transactions:
            self._number += 1
            heapq.heappush(self._coming, (transaction.first_offset, self._number, transaction))

    def take_retained(self) -> list[AbortedTxn]:
        """The aborted transactions whose markers were kept since the last call, in the order of the markers."""
        retained, self._retained = self._retained, []
        return retained

    def may_discard(self, batch: RecordBatch) -> bool:
        """Whether a transactional or control batch may be dropped: aborted data, or a marker without data before it."""
        self._reach(batch.last_offset)
        if batch.is_control:
            return self._may_discard_marker(batch)
        if batch.producer_id in self._aborted:
            self._has_data.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)

    def _may_discard_marker(self, batch: RecordBatch) -> bool:
        record = next(batch.records(), None)
        if record is None:
            return True  # an earlier cleaning dropped its record
        kind = control_record_type(record.key)
        if kind == ControlRecordType.ABORT:
            return self._may_discard_abort(batch.producer_id)
        if kind == ControlRecordType.COMMIT:
            had_data = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not had_data
        return False

    def _may_discard_abort(self, producer_id: int) -> bool:
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._has_data:
            return True
        self._has_data.discard(producer_id)
        self._retained.append(transaction)
        return False
