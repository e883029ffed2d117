"""Broker keys for transactions and for the state of idempotent producers.

Source: TransactionLogConfig, TransactionStateManagerConfig, ProducerStateManagerConfig, AddPartitionsToTxnConfig.
"""

from barnabas.config.catalogue.use import ACTED
from barnabas.config.keys import CLUSTER_WIDE, HIGH, LOW, KeySet
from barnabas.config.validators import at_least

keys = KeySet()

# The topic __transaction_state.

TRANSACTION_STATE_LOG_REPLICATION_FACTOR = keys.short(
    "transaction.state.log.replication.factor", 3, HIGH, ACTED, at_least(1)
).doc("How many replicas __transaction_state gets; never more than there are brokers.")
TRANSACTION_STATE_LOG_MIN_ISR = keys.int_("transaction.state.log.min.isr", 2, HIGH, ACTED, at_least(1)).doc(
    "How many replicas of __transaction_state must be in sync; never more than it has replicas."
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = keys.int_(
    "transaction.state.log.num.partitions", 50, HIGH, ACTED, at_least(1)
).doc("How many partitions __transaction_state gets; do not change it once the topic exists.")
TRANSACTION_STATE_LOG_SEGMENT_BYTES = keys.int_(
    "transaction.state.log.segment.bytes", 100 << 20, HIGH, ACTED, at_least(1)
).doc("How large a segment of __transaction_state becomes; small ones are compacted sooner and load faster.")
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = keys.int_(
    "transaction.state.log.load.buffer.size", 5 << 20, HIGH, ACTED, at_least(1)
).doc("How many bytes are read at a time when transactions are loaded; a larger batch still comes whole.")

# Transactions.

TRANSACTION_MAX_TIMEOUT_MS = keys.int_("transaction.max.timeout.ms", 900_000, HIGH, ACTED, at_least(1)).doc(
    "The longest transaction that a producer may ask for; one that asks for more is rejected."
)
TRANSACTIONAL_ID_EXPIRATION_MS = keys.int_(
    "transactional.id.expiration.ms", 604_800_000, HIGH, ACTED, at_least(1)
).doc("How long an unused transactional id is remembered.")
TRANSACTION_PARTITION_VERIFICATION_ENABLE = keys.boolean(
    "transaction.partition.verification.enable", True, LOW, ACTED, None, CLUSTER_WIDE
).doc(
    "Whether a partition checks with the coordinator that it belongs to a transaction before it accepts records of it."
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = keys.boolean(
    "transaction.two.phase.commit.enable", False, LOW, ACTED
).doc(
    "Whether producers may keep transactions open without a timeout, for a commit that another system decides."
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = keys.int_(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    LOW,
    ACTED,
    at_least(1),
).doc("How often the coordinator looks for transactions that have run out of time.")
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = keys.int_(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    LOW,
    ACTED,
    at_least(1),
).doc("How often the coordinator looks for transactional ids that have expired.")
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = keys.int_(
    "add.partitions.to.txn.retry.backoff.ms", 20, HIGH, ACTED, at_least(1)
).doc("How long a partition rests before it asks the coordinator again.")
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = keys.int_(
    "add.partitions.to.txn.retry.backoff.max.ms", 100, HIGH, ACTED, at_least(0)
).doc("How long a partition tries in all before it answers the producer with an error that can be retried.")

# Idempotent producers.

PRODUCER_ID_EXPIRATION_MS = keys.int_(
    "producer.id.expiration.ms", 86_400_000, LOW, ACTED, at_least(1), CLUSTER_WIDE
).doc("How long a partition remembers a producer that no longer writes to it, to recognise its duplicates.")
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = keys.int_(
    "producer.id.expiration.check.interval.ms", 600_000, LOW, ACTED, at_least(1), internal=True
).doc("How often partitions look for producers to forget.")
