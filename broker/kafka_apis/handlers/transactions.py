"""Producer ids and transactions, as producers, partitions and administrators ask for them.

InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions, ListTransactions. Versions
without PRODUCER_FENCED get INVALID_PRODUCER_EPOCH in its place. Source: KafkaApis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.topic_admin import is_internal
from barnabas.broker.coordinator.group.consumer.regexes import InvalidRegexError, full_matcher
from barnabas.broker.coordinator.transaction.listing import Described, TransactionFilter
from barnabas.broker.coordinator.transaction.metadata import TV_0, TV_2
from barnabas.broker.coordinator.transaction.rules import ProducerAnswer, ProducerIdAndEpoch
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.request import RequestContext, api
from barnabas.config.catalogue.groups import OFFSETS_TOPIC_NUM_PARTITIONS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.producers import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_INIT, _INIT_TWO_PHASE, _IDEMPOTENT_WRITE, _WRITE_ANY = checks_of(ApiKey.INIT_PRODUCER_ID)
_ADD_FOR_BROKERS, _ADD, _ADD_TOPIC = checks_of(ApiKey.ADD_PARTITIONS_TO_TXN)
_DESCRIBE, _DESCRIBE_TOPIC = checks_of(ApiKey.DESCRIBE_TRANSACTIONS)
(_LIST,) = checks_of(ApiKey.LIST_TRANSACTIONS)

FIRST_INIT_WITH_FENCED: Final = 4
FIRST_WITH_FENCED: Final = 2
"""The first versions whose clients know PRODUCER_FENCED: of InitProducerId, and of the others."""

FIRST_BATCHED: Final = 4
"""The first version of AddPartitionsToTxn for brokers, with many transactions in a request."""

FIRST_END_WITH_EPOCH_BUMP: Final = 5
"""The first version of EndTxn whose clients speak transaction version 2."""

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


# ---- producer ids


@api(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), unstable=6)
def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    """A producer id and an epoch; for a transactional id they fence every earlier producer."""

    def respond(answer: ProducerAnswer) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            error_code=_for(context, answer.error, FIRST_INIT_WITH_FENCED),
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
        )

    error = _why_not_init(broker, context, request)
    if error is not ErrorCode.NONE:
        return respond(ProducerAnswer(error))
    named = (request.producer_id != -1, request.producer_epoch != -1)
    if any(named) and not all(named):
        return respond(ProducerAnswer(ErrorCode.INVALID_REQUEST))
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if all(named) else None
    return broker.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        expected,
        enable_two_phase_commit=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    ).then(respond)


def _why_not_init(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    """The error of a client that may not have a producer id, or not for its transactional id; NONE of one that may."""
    auth, name = broker.auth, request.transactional_id
    if auth is None:
        return ErrorCode.NONE
    if name is not None:
        checks = (_INIT, _INIT_TWO_PHASE) if request.enable2_pc else (_INIT,)
        allowed = all(auth.authorize(context, check, name) for check in checks)
        return ErrorCode.NONE if allowed else denied(_INIT).code
    if auth.authorize(context, _IDEMPOTENT_WRITE) or auth.authorize_by_resource_type(context, _WRITE_ANY):
        return ErrorCode.NONE
    return denied(_IDEMPOTENT_WRITE).code


# ---- partitions of transactions


@api(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5))
def add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Pending[AddPartitionsToTxnResponse]:
    """Adds partitions to the transaction of a producer, or, for a broker, verifies that they belong to one."""
    if context.api_version >= FIRST_BATCHED and not is_allowed(broker, context, _ADD_FOR_BROKERS):
        return completed(AddPartitionsToTxnResponse(error_code=denied(_ADD_FOR_BROKERS).code))
    if context.api_version < FIRST_BATCHED:
        return _add_or_verify(broker, context, _as_transaction(request)).then(_of_one_transaction)
    answers = [_add_or_verify(broker, context, transaction) for transaction in request.transactions]
    return all_of(answers).then(lambda results: AddPartitionsToTxnResponse(results_by_transaction=results))


def _as_transaction(request: AddPartitionsToTxnRequest) -> Transaction:
    return Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        verify_only=False,
        topics=request.v3_and_below_topics,
    )


def _of_one_transaction(result: Result) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def _add_or_verify(broker: Broker, context: RequestContext, transaction: Transaction) -> Pending[Result]:
    partitions = _partitions(transaction.topics)
    unauthorized: Sequence[TopicPartition] = ()
    if broker.auth is not None and context.api_version < FIRST_BATCHED:
        if not broker.auth.authorize(context, _ADD, transaction.transactional_id):
            return completed(_same_for_all(transaction, denied(_ADD).code))
        names = [topic for topic, _ in partitions if not is_internal(topic)]
        allowed = broker.auth.filter(context, _ADD_TOPIC, names)
        unauthorized = [each for each in partitions if is_internal(each[0]) or each[0] not in allowed]
    unknown = [each for each in partitions if each not in unauthorized and not _exists(broker, each)]
    if unauthorized or unknown:
        return completed(_nothing_attempted(transaction, partitions, unknown, unauthorized))
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return broker.transactions.verify_partitions(transaction.transactional_id, producer, partitions).then(
            lambda errors: _result(transaction, errors)
        )
    client_version = TV_2 if context.api_version >= FIRST_BATCHED else TV_0
    return broker.transactions.add_partitions(
        transaction.transactional_id, producer, partitions, client_version
    ).then(lambda error: _same_for_all(transaction, _for(context, error, FIRST_WITH_FENCED)))


def _partitions(topics: Sequence[Topic]) -> list[TopicPartition]:
    return list(dict.fromkeys((topic.name, index) for topic in topics for index in topic.partitions))


def _exists(broker: Broker, partition: TopicPartition) -> bool:
    topic, index = partition
    known = broker.image.topics.get(topic)
    return known is not None and index in known.partitions


def _nothing_attempted(
    transaction: Transaction,
    partitions: Sequence[TopicPartition],
    unknown: Sequence[TopicPartition],
    unauthorized: Sequence[TopicPartition],
) -> Result:
    """One partition that is unknown or denied fails the others."""
    errors = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    errors.update(dict.fromkeys(unauthorized, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    errors.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return _result(transaction, errors)


def _same_for_all(transaction: Transaction, error: ErrorCode) -> Result:
    """One result for each partition of the request, repeated ones and topics without partitions included."""
    return Result(
        transactional_id=transaction.transactional_id,
        topic_results=[
            TopicResult(
                name=topic.name,
                results_by_partition=[
                    PartitionResult(partition_index=index, partition_error_code=error)
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def _result(transaction: Transaction, errors: Mapping[TopicPartition, ErrorCode]) -> Result:
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, index), error in errors.items():
        answer = PartitionResult(partition_index=index, partition_error_code=error)
        topics.setdefault(topic, []).append(answer)
    return Result(
        transactional_id=transaction.transactional_id,
        topic_results=[
            TopicResult(name=topic, results_by_partition=answers) for topic, answers in topics.items()
        ],
    )


@api(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4))
def add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Pending[AddOffsetsToTxnResponse]:
    """Adds the partition of __consumer_offsets that a group belongs to; the commit checks whether it exists."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    partition = (CONSUMER_OFFSETS, _partition_of_group(broker, request.group_id))
    return broker.transactions.add_partitions(request.transactional_id, producer, [partition], TV_0).then(
        lambda error: AddOffsetsToTxnResponse(error_code=_for(context, error, FIRST_WITH_FENCED))
    )


def _partition_of_group(broker: Broker, group_id: str) -> int:
    topic = broker.image.topics.get(CONSUMER_OFFSETS)
    count = broker.config[OFFSETS_TOPIC_NUM_PARTITIONS] if topic is None else len(topic.partitions)
    return partition_for(group_id, count)


# ---- the end


@api(ApiKey.END_TXN, versions=(0, 5))
def end_txn(broker: Broker, context: RequestContext, request: EndTxnRequest) -> Pending[EndTxnResponse]:
    """Commits or aborts; the response comes when the decision is durable."""
    client_version = TV_2 if context.api_version >= FIRST_END_WITH_EPOCH_BUMP else TV_0

    def respond(answer: ProducerAnswer) -> EndTxnResponse:
        response = EndTxnResponse(error_code=_for(context, answer.error, FIRST_WITH_FENCED))
        if client_version == TV_2:
            response.producer_id, response.producer_epoch = answer.producer_id, answer.producer_epoch
        return response

    return broker.transactions.end_transaction(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commits=request.committed,
        client_version=client_version,
    ).then(respond)


# ---- describing


@api(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0))
def describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> Pending[DescribeTransactionsResponse]:
    def describe(transactional_id: str) -> Pending[Described]:
        if not is_allowed(broker, context, _DESCRIBE, transactional_id):
            code = denied(_DESCRIBE).code
            return completed(Described(transactional_id=transactional_id, error_code=code))
        return broker.transactions.describe(transactional_id)

    def visible(states: list[Described]) -> DescribeTransactionsResponse:
        for state in states if broker.auth is not None else ():
            names = [topic.topic for topic in state.topics]
            allowed = allowed_names(broker, context, _DESCRIBE_TOPIC, names)
            state.topics = [topic for topic in state.topics if topic.topic in allowed]
        return DescribeTransactionsResponse(transaction_states=states)

    return all_of([describe(name) for name in request.transactional_ids]).then(visible)


@api(ApiKey.LIST_TRANSACTIONS, versions=(0, 2))
def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Pending[ListTransactionsResponse]:
    try:
        wanted = _filter(request)
    except InvalidRegexError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

    def visible(response: ListTransactionsResponse) -> ListTransactionsResponse:
        names = [state.transactional_id for state in response.transaction_states]
        allowed = allowed_names(broker, context, _LIST, names)
        response.transaction_states = [
            state for state in response.transaction_states if state.transactional_id in allowed
        ]
        return response

    listed = broker.transactions.list_transactions(wanted)
    return listed if broker.auth is None else listed.then(visible)


def _filter(request: ListTransactionsRequest) -> TransactionFilter:
    pattern = request.transactional_id_pattern
    return TransactionFilter(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        longer_than_ms=request.duration_filter,
        matches=full_matcher(pattern) if pattern else None,
    )


# ---- error codes


def _for(context: RequestContext, error: ErrorCode, first_with_fenced: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
