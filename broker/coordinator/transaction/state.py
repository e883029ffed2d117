"""TransactionState: the states of a transactional id and their transitions.

    Empty ───────────┐ AddPartitions, AddOffsets       EndTxn                    all markers written
    CompleteCommit ──┼────────────────────────▶ Ongoing ──────▶ PrepareCommit ──────────────────────▶ CompleteCommit
    CompleteAbort ───┘                             │ EndTxn, timeout, InitProducerId
          │                                        └─────────▶ PrepareAbort ───────────────────────▶ CompleteAbort
          └ EndTxn(abort) with transaction version 2 ───────────▲

InitProducerId leads from the three on the left to Empty; with a transaction open it fences its producer and aborts.
Source: org.apache.kafka.coordinator.transaction.TransactionState.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The state of a transactional id; values are those of the records, `label` is the name in responses.

    DEAD (an id that is being deleted) and PREPARE_EPOCH_FENCE (an older producer that is being fenced) are steps within
    Apache Kafka's coordinator and in no record, but clients can filter by them.
    """

    label: str

    def __new__(cls, number: int, label: str) -> TransactionState:
        member = int.__new__(cls, number)
        member._value_ = number
        member.label = label
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT

IDLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open: another producer may take over, the id may expire."""

ENDING: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The end of the transaction is decided; markers are being written, and other requests are rejected."""

VALID_PREVIOUS_STATES: Final = {
    EMPTY: IDLE,
    ONGOING: IDLE | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: IDLE | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
}
"""The states from which each is entered; asserted with each transition."""

BY_NUMBER: Final = {int(state): state for state in TransactionState}
BY_LABEL: Final = {state.label: state for state in TransactionState}
