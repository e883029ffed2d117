"""VerificationStates: transactions that the coordinator has yet to confirm before their first batch (KIP-890).

Who takes a transactional batch asks the coordinator first whether the partition belongs to the producer's transaction.
`start` gives him a guard for that time, and the append is let through with this guard only. A marker that is written
meanwhile takes the guard away, so that an answer which was overtaken by the end of the transaction does no harm (but
see `clear_after`). From
the first batch on the log itself knows that the transaction is open, and no guard is needed.
"""


class VerificationGuard:
    """One asking; equal to nothing but itself."""

    __slots__ = ()


class VerificationStateEntry:
    """What waits for one producer.

    `lowest_sequence` is the lowest that was seen in `epoch`: a batch behind one that has to be sent again must not be
    appended before it, or the latter would be out of order for ever. `supports_epoch_bump`: each transaction of the
    producer has an epoch of its own (transaction version 2).
    """

    __slots__ = ("epoch", "guard", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, started_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.started_ms = started_ms
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        self.guard = VerificationGuard()

    def see(self, sequence: int, epoch: int) -> None:
        """Notes a batch that is to be verified; a new epoch starts its sequence anew."""
        if epoch == self.epoch:
            self.lowest_sequence = min(sequence, self.lowest_sequence)
        elif epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence


class VerificationStates:
    """The entries of one log, by producer id."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, VerificationStateEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def start(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """The guard for a producer whose transaction is about to be verified; the same one until it is used."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = VerificationStateEntry(
                now_ms, sequence, epoch, supports_epoch_bump
            )
        entry.see(sequence, epoch)
        return entry.guard

    def get(self, producer_id: int) -> VerificationStateEntry | None:
        return self._entries.get(producer_id)

    def allows(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether the guard is the one that was given out last."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.guard is guard

    def clear_after(self, producer_id: int, epoch: int, *, is_marker: bool) -> None:
        """The transaction has begun in the log, or has ended.

        A marker leaves alone what is verified in its own epoch, where each transaction has one: that is the next
        transaction, which begins with the epoch that the marker brings.
        """
        entry = self._entries.get(producer_id)
        if entry is None or (is_marker and entry.supports_epoch_bump and entry.epoch == epoch):
            return
        del self._entries[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets those whose answer never came."""
        for producer_id, entry in list(self._entries.items()):
            if now_ms - entry.started_ms >= expiration_ms:
                del self._entries[producer_id]
