"""Producer ids and transactions: fencing of transactional ids, and the end of each transaction."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.producers import DescribeTransactionsRequest, ListTransactionsRequest
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.transactional import FIRST_OF_BROKERS, Producer, init, sorted_results

FIRST, LAST = 0, 5
PREVIOUS_ID = 3


# ---- InitProducerId


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def ids_without_a_transactional_id(client: DialogueClient) -> None:
    client.request_until(init(transactional_id=None), lambda answer: answer.error_code == 0)
    ids = [client.request(init(transactional_id=None)).producer_id for _ in range(5)]
    client.note([later - earlier for earlier, later in pairwise(ids)])


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def ignored_timeouts(client: DialogueClient) -> None:
    for timeout_ms in (0, -1, 2**31 - 1):
        client.request(init(transaction_timeout_ms=timeout_ms))


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def an_empty_transactional_id(client: DialogueClient) -> None:
    client.request(init(transactional_id=""))


@dialogue(ApiKey.INIT_PRODUCER_ID, PREVIOUS_ID, LAST)
def a_previous_id_without_a_transactional_id(client: DialogueClient) -> None:
    for producer_id, epoch in ((5, 0), (5, -1), (-1, 0), (-2, -2), (2**40, 3)):
        client.request(init(producer_id=producer_id, producer_epoch=epoch))


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def successive_producers(client: DialogueClient) -> None:
    producer = Producer(client, is_initialized=False)
    producer.note_state()
    for timeout_ms in (60_000, 1, 900_000):
        producer.init(transaction_timeout_ms=timeout_ms)
        producer.note_state()


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def timeouts_of_transactions(client: DialogueClient) -> None:
    producer = Producer(client, is_initialized=False)
    for timeout_ms in (0, -1, 900_001, 2**31 - 1):
        producer.init(transaction_timeout_ms=timeout_ms)
    producer.note_state()
    producer.init(transaction_timeout_ms=900_000)
    producer.init(transaction_timeout_ms=0)
    producer.note_state()


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def a_producer_takes_over_an_open_transaction(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t")
    producer.open({topic: [0]})
    producer.note_state()
    producer.init()
    producer.note_state()
    producer.init()
    producer.note_state()


@dialogue(ApiKey.INIT_PRODUCER_ID, PREVIOUS_ID, LAST)
def another_epoch_for_the_same_producer(client: DialogueClient) -> None:
    producer = Producer(client)
    first = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    producer.init(**first)
    producer.note_state()
    producer.init(**first)
    producer.init(producer_id=producer.id, producer_epoch=producer.epoch)
    producer.init(**first)
    producer.init(producer_id=producer.id, producer_epoch=producer.epoch + 1)
    producer.init(producer_id=producer.id + 1_000_000, producer_epoch=producer.epoch)
    producer.init(producer_id=producer.id, producer_epoch=-1)
    producer.init(producer_id=-1, producer_epoch=producer.epoch)
    producer.note_state()
    producer.init()
    producer.init(producer_id=producer.id, producer_epoch=producer.epoch - 1)


@dialogue(ApiKey.INIT_PRODUCER_ID, PREVIOUS_ID, LAST)
def another_epoch_of_an_unknown_producer(client: DialogueClient) -> None:
    producer = Producer(client, is_initialized=False)
    producer.init(producer_id=2**40, producer_epoch=7)
    producer.note_state()


@dialogue(ApiKey.INIT_PRODUCER_ID, PREVIOUS_ID, LAST)
def another_epoch_with_a_transaction_open(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t")
    producer.open({topic: [0]})
    before = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    producer.init(producer_id=producer.id, producer_epoch=producer.epoch + 3)
    producer.note_state()
    producer.init(**before)
    producer.note_state()
    producer.init(**before)
    producer.note_state()


# ---- AddPartitionsToTxn


@dialogue(ApiKey.ADD_PARTITIONS_TO_TXN, FIRST, LAST)
def partitions_are_added(client: DialogueClient) -> None:
    producer = Producer(client)
    one, other = client.create("one", 3), client.create("other", 12)
    version = client.version
    producer.add({one: [0]}, version)
    producer.note_state()
    producer.add({one: [0]}, version)
    producer.add({one: [2, 1], other: [3]}, version)
    producer.add({other: [3, 3, 11, 0]}, version)
    producer.note_state()
    producer.end(committed=True, version=4)
    producer.settle()
    producer.note_state()
    producer.add({other: [0]}, version)
    producer.note_state()


@dialogue(ApiKey.ADD_PARTITIONS_TO_TXN, FIRST, LAST)
def partitions_of_other_producers(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t")
    version = client.version
    producer.add({topic: [0]}, version, transactional_id=client.topic("nobody"))
    producer.add({topic: [0]}, version, transactional_id="")
    producer.add({topic: [0]}, version, producer_id=producer.id + 1_000_000)
    producer.add({topic: [0]}, version, producer_id=-1)
    producer.add({topic: [0]}, version, producer_epoch=producer.epoch + 1)
    producer.initialize()
    producer.add({topic: [0]}, version, producer_epoch=producer.epoch - 1)
    producer.note_state()


@dialogue(ApiKey.ADD_PARTITIONS_TO_TXN, FIRST, LAST)
def unknown_partitions(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t", 2)
    version = client.version
    producer.add({topic: [0, 2], client.topic("none"): [0]}, version)
    producer.add({topic: [-1]}, version)
    producer.add({client.topic("none"): [0]}, version, transactional_id="")
    producer.add({}, version)
    producer.note_state()
    producer.add({topic: []}, version)
    producer.note_state()


@dialogue(ApiKey.ADD_PARTITIONS_TO_TXN, FIRST_OF_BROKERS, LAST)
def several_transactions_of_brokers(client: DialogueClient) -> None:
    one, other = Producer(client, "one"), Producer(client, "other")
    topic = client.create("t", 3)
    one.open({topic: [0, 1]})

    def request_with(*parts: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction) -> None:
        client.request(AddPartitionsToTxnRequest(transactions=list(parts)), noting=sorted_results)

    request_with(one.part({topic: [0, 2]}, verify_only=True), other.part({topic: [0]}, verify_only=True))
    request_with(one.part({topic: [2]}), other.part({topic: [0]}, verify_only=True))
    request_with(one.part({topic: [0, 1, 2]}, verify_only=True), other.part({topic: [7]}))
    request_with(one.part({topic: [0]}, verify_only=True, producer_epoch=one.epoch + 1))
    request_with(one.part({topic: [0]}, verify_only=True, producer_id=one.id + 1_000_000))
    request_with(one.part({topic: [0]}, verify_only=True, transactional_id=client.topic("nobody")))
    request_with(one.part({topic: [0]}, verify_only=True, transactional_id=""))
    request_with(one.part({topic: [0], client.topic("none"): [1]}, verify_only=True))
    one.end(committed=False, version=4)
    one.settle()
    request_with(one.part({topic: [0]}, verify_only=True))
    one.note_state()
    other.note_state()


# ---- AddOffsetsToTxn


@dialogue(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4)
def offsets_of_a_group_are_added(client: DialogueClient) -> None:
    producer = Producer(client)

    def request_with(**given: Any) -> None:
        fields: dict[str, Any] = {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "group_id": client.topic("group"),
        } | given
        client.request(AddOffsetsToTxnRequest(**fields))

    request_with(transactional_id=client.topic("nobody"))
    request_with(transactional_id="")
    request_with(producer_id=producer.id + 1_000_000)
    request_with(producer_epoch=producer.epoch + 1)
    producer.note_state()
    request_with()
    request_with()
    request_with(group_id="")
    request_with(group_id=client.topic("another group"))
    producer.initialize()
    request_with(producer_epoch=producer.epoch - 1)


# ---- EndTxn


def begin(producer: Producer, topic: str, *, committed: bool | None) -> None:
    """Begins a transaction and ends it unless `committed` is None; notes nothing."""
    producer.initialize()
    producer.open({topic: [0]})
    if committed is not None:
        request = EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        producer.client.request_until(request, lambda answer: answer.error_code == 0, 4)
        producer.settle()


@dialogue(ApiKey.END_TXN, FIRST, LAST)
def transactions_end(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t", 2)
    for committed in (True, False):
        producer.open({topic: [0, 1]})
        before = producer.id, producer.epoch
        producer.end(committed=committed)
        producer.note_state()
        for again in (committed, not committed):
            producer.end(committed=again, producer_id=before[0], producer_epoch=before[1])
            producer.note_state()


@dialogue(ApiKey.END_TXN, FIRST, LAST)
def an_end_without_a_transaction(client: DialogueClient) -> None:
    """With transaction version 2 even such an abort bumps the epoch."""
    for committed in (True, False):
        producer = Producer(client, f"empty-{committed}")
        producer.end(committed=committed)
        producer.note_state()
        producer.end(committed=committed)
        producer.note_state()


@dialogue(ApiKey.END_TXN, FIRST, LAST)
def a_repeated_end(client: DialogueClient) -> None:
    topic = client.create("t")
    for was_committed in (True, False):
        for committed in (True, False):
            producer = Producer(client, f"{was_committed}-{committed}")
            begin(producer, topic, committed=was_committed)
            producer.end(committed=committed)
            producer.note_state()
            producer.end(committed=committed, producer_epoch=producer.epoch - 1)
            producer.end(committed=committed, producer_epoch=producer.epoch - 2)
            producer.end(committed=committed, producer_epoch=producer.epoch + 1)


@dialogue(ApiKey.END_TXN, FIRST, LAST)
def ends_of_other_producers(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t")
    begin(producer, topic, committed=None)
    for committed in (True, False):
        producer.end(committed=committed, transactional_id=client.topic("nobody"))
        producer.end(committed=committed, transactional_id="")
        producer.end(committed=committed, producer_id=producer.id + 1_000_000)
        producer.end(committed=committed, producer_id=-1)
        producer.end(committed=committed, producer_epoch=producer.epoch - 1)
        producer.end(committed=committed, producer_epoch=producer.epoch + 1)
    producer.note_state()


@dialogue(ApiKey.END_TXN, FIRST, LAST)
def many_transactions(client: DialogueClient) -> None:
    producer = Producer(client)
    topic = client.create("t", 4)
    for number in range(6):
        producer.open({topic: range(number % 4 + 1)})
        producer.end(committed=number % 3 != 2)
        producer.settle()
    producer.note_state()
    producer.init(4)
    producer.note_state()


# ---- DescribeTransactions and ListTransactions


@dialogue(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0)
def described_transactions(client: DialogueClient) -> None:
    known, other = Producer(client, "known"), Producer(client, "other")
    topic = client.create("t", 12)
    other.open({topic: [5, 0, 11]})
    names = [
        known.transactional_id,
        client.topic("nobody"),
        "",
        other.transactional_id,
        known.transactional_id,
    ]
    client.request(DescribeTransactionsRequest(transactional_ids=names))
    client.request(DescribeTransactionsRequest(transactional_ids=[]))


@dialogue(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0)
def partitions_in_hash_order(client: DialogueClient) -> None:
    """In the order of Kafka's hash tables, which is their order in the log too."""
    producer = Producer(client)
    names = [client.create(word, 40) for word in ("a", "b", "c")]
    added: list[dict[str, list[int]]] = [
        {names[0]: list(range(0, 40, 3))},
        {names[1]: [39, 1, 17], names[0]: [38, 2]},
        {names[2]: list(range(40)), names[1]: [0]},
    ]
    for partitions in added:
        producer.open(partitions)
        client.request(producer.described(), 0)


@dialogue(ApiKey.LIST_TRANSACTIONS, 0, 2)
def transactions_by_state_and_producer(client: DialogueClient) -> None:
    empty, open_, done = (Producer(client, word) for word in ("empty", "open", "done"))
    topic = client.create("t")
    open_.open({topic: [0]})
    begin(done, topic, committed=True)
    mine = [empty.id, open_.id, done.id]

    def request_with(**fields: Any) -> None:
        fields.setdefault("producer_id_filters", mine)
        client.request(ListTransactionsRequest(**fields), noting=_listed)

    request_with()
    request_with(producer_id_filters=[open_.id, 2**40])
    request_with(producer_id_filters=[2**40])
    request_with(state_filters=["Ongoing"])
    request_with(state_filters=["Empty", "CompleteCommit", "ongoing", "Nonsense"])
    request_with(state_filters=["Nonsense"])
    request_with(
        state_filters=["Dead", "PrepareEpochFence", "PrepareCommit", "PrepareAbort", "CompleteAbort", ""]
    )


def _listed(answer: Any) -> object:
    answer.transaction_states = sorted(
        answer.transaction_states, key=lambda state: str(state.transactional_id)
    )
    answer.unknown_state_filters = sorted(answer.unknown_state_filters)
    return answer


@dialogue(ApiKey.LIST_TRANSACTIONS, 1, 2)
def listed_by_duration(client: DialogueClient) -> None:
    empty, open_ = Producer(client, "empty"), Producer(client, "open")
    open_.open({client.create("t"): [0]})
    for duration in (-1, -5, 3_600_000, 2**62):
        request = ListTransactionsRequest(producer_id_filters=[empty.id, open_.id], duration_filter=duration)
        client.request(request, noting=_listed)
    client.request_until(
        ListTransactionsRequest(producer_id_filters=[open_.id], duration_filter=10),
        lambda answer: len(answer.transaction_states) == 1,
    )


@dialogue(ApiKey.LIST_TRANSACTIONS, 2, 2)
def listed_by_pattern(client: DialogueClient) -> None:
    one, other = Producer(client, "one"), Producer(client, "other")
    for pattern in (
        None,
        "",
        one.transactional_id,
        client.topic("o.*"),
        ".*other",
        "other",
        "(?i).*OTHER",
        "(",
        "a{2,1}",
        "(?=x)",
        r"\p{Greek}*",
    ):
        request = ListTransactionsRequest(
            producer_id_filters=[one.id, other.id], transactional_id_pattern=pattern
        )
        client.request(request, noting=_listed)
