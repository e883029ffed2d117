"""The values that clients meant to write, with which everything that can be read is compared."""

from __future__ import annotations

from tests.simulation.node import TopicPartition


class Transaction:
    """One transaction of a producer.

    `wants_commit`: its producer has requested a commit. `committed`: the commit was confirmed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[TopicPartition, list[bytes]] = {}
        self.offsets: dict[tuple[str, TopicPartition], int] = {}  # by group
        self.wants_commit = False
        self.committed = False

    def __repr__(self) -> str:
        return f"<transaction {self.name}>"


class Ledger:
    """Every value that was ever sent, each of them once."""

    def __init__(self) -> None:
        self.transactions: dict[bytes, Transaction] = {}
        self.acknowledged: dict[TopicPartition, set[bytes]] = {}
        self.sent: dict[TopicPartition, set[bytes]] = {}
        self.all_transactions: list[Transaction] = []

    def begin(self, name: str) -> Transaction:
        transaction = Transaction(name)
        self.all_transactions.append(transaction)
        return transaction

    def add_sent(
        self, partition: TopicPartition, values: list[bytes], transaction: Transaction | None
    ) -> None:
        """Registers values that are about to be sent."""
        self.sent.setdefault(partition, set()).update(values)
        if transaction is not None:
            transaction.values.setdefault(partition, []).extend(values)
            for value in values:
                self.transactions[value] = transaction

    def add_acknowledged(self, partition: TopicPartition, values: list[bytes]) -> None:
        """Values outside of transactions were acknowledged: they must be present."""
        self.acknowledged.setdefault(partition, set()).update(values)
