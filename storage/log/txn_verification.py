"""VerificationStates: transactions that the coordinator must confirm before their first batch (KIP-890).

Before the first batch of a transaction, the broker asks the coordinator whether the partition belongs to it. `start`
issues a guard for that time, and the append needs this guard. A marker that is written meanwhile invalidates the guard,
so that a confirmation that arrives after the end of the transaction does no harm (but see `clear_after`). After the
first batch the log itself knows that the transaction is open, and no guard is needed.
"""


class VerificationGuard:
    """Identifies one verification."""

    __slots__ = ()


class VerificationStateEntry:
    """The pending verification of one producer.

    `lowest_sequence` is the lowest of `epoch`: a batch must not be appended before an earlier one that is sent again,
    which would then be out of order for ever. `supports_epoch_bump`: each transaction of the producer has an epoch of
    its own (transaction version 2).
    """

    __slots__ = ("epoch", "guard", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, started_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.started_ms = started_ms
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        self.guard = VerificationGuard()

    def see(self, sequence: int, epoch: int) -> None:
        """Adds a batch that is to be verified; a new epoch starts a new sequence."""
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
        """The guard for a producer whose transaction is to be verified; the same until it is used."""
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
        """Whether the guard is the producer's current one."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.guard is guard

    def clear_after(self, producer_id: int, epoch: int, *, is_marker: bool) -> None:
        """To be called when a transaction has begun in the log, or has ended.

        If each transaction has its own epoch, a marker keeps a verification in the marker's epoch: it is that of the
        next transaction, which begins with this epoch.
        """
        entry = self._entries.get(producer_id)
        if entry is None or (is_marker and entry.supports_epoch_bump and entry.epoch == epoch):
            return
        del self._entries[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Removes verifications that were never confirmed."""
        for producer_id, entry in list(self._entries.items()):
            if now_ms - entry.started_ms >= expiration_ms:
                del self._entries[producer_id]
