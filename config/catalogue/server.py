"""Broker keys for the server as a whole: identity, permitted operations, limits of single requests.

Source: ServerConfigs, KRaftConfigs (node.id, process.roles).
"""

from typing import Final

from barnabas.config.catalogue.use import (
    ACTED,
    IN_CLUSTER,
    NO_EARLY_START,
    NO_JAVA,
    NO_PLUGINS,
    ONE_LOOP,
)
from barnabas.config.keys import CLUSTER_WIDE, HIGH, LOW, MEDIUM, KeySet
from barnabas.config.validators import ListOf, Satisfies, at_least, is_authorizer_class
from barnabas.config.values import LONG_MAX

keys = KeySet()

# Identity.

NODE_ID = keys.optional_int("node.id", None, HIGH, ACTED, at_least(0)).doc(
    "The number of this broker. When unset, the one that the data directory was formatted with, or 1 the "
    "first time."
)
BROKER_ID = keys.int_("broker.id", -1, HIGH, ACTED).doc(
    "The older name of node.id; when both are set they must be equal."
)
PROCESS_ROLES = keys.list_(
    "process.roles", ("broker", "controller"), HIGH, ACTED, ListOf("broker", "controller")
).doc(
    "What this process is: broker,controller is a node that is alone, broker a member of an Apache Kafka cluster "
    "that other nodes control."
)
BROKER_RACK = keys.optional_string("broker.rack", None, MEDIUM, ACTED).doc(
    "The rack or zone of this broker, for clients and for replica placement."
)

# Permitted operations.

DELETE_TOPIC_ENABLE = keys.boolean("delete.topic.enable", True, HIGH, ACTED).doc(
    "Whether topics can be deleted at all."
)
AUTHORIZER_CLASS_NAME = keys.string(
    "authorizer.class.name",
    "",
    LOW,
    ACTED,
    Satisfies(
        is_authorizer_class,
        "empty, org.apache.kafka.metadata.authorizer.StandardAuthorizer, or python:module:Class for one of your own",
    ),
).doc(
    "The class that decides what each client may do. Kafka's StandardAuthorizer follows the ACLs in the metadata, "
    "which clients create, list and delete; without a class every client may do everything, and there are no ACLs. "
    "python:module:Class names a class of your own: docs/authorization.md describes what it has to be. Any other "
    "class refuses the start, as nothing would be protected."
)
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EARLY_START_LISTENERS = keys.optional_list(
    "early.start.listeners", None, HIGH, NO_EARLY_START, ListOf(may_be_empty=True)
).doc(
    "Listeners that open before the authorizer is ready, for an authorizer that keeps its rules in this cluster."
)
CREATE_TOPIC_POLICY_CLASS_NAME = keys.class_name("create.topic.policy.class.name", None, LOW, NO_JAVA).doc(
    "The class that may reject the creation of a topic."
)
ALTER_CONFIG_POLICY_CLASS_NAME = keys.class_name("alter.config.policy.class.name", None, LOW, NO_JAVA).doc(
    "The class that may reject the change of a configuration."
)
CONFIG_PROVIDERS = keys.list_(
    "config.providers", (), LOW, NO_PLUGINS, ListOf(may_be_empty=True), CLUSTER_WIDE
).doc("Names of providers that replace ${provider:path:key} in configuration values.")
UNSTABLE_API_VERSIONS_ENABLE = keys.boolean(
    "unstable.api.versions.enable", False, HIGH, ACTED, internal=True
).doc("Whether versions of requests that are still in the making are offered to clients.")
UNSTABLE_FEATURE_VERSIONS_ENABLE = keys.boolean(
    "unstable.feature.versions.enable", False, HIGH, ACTED, internal=True
).doc("Whether feature levels that are still in the making may be chosen.")

# Workers.

NUM_IO_THREADS = keys.int_("num.io.threads", 8, HIGH, ONE_LOOP, at_least(1), CLUSTER_WIDE).doc(
    "How many threads handle requests."
)
BACKGROUND_THREADS = keys.int_("background.threads", 10, HIGH, ONE_LOOP, at_least(1), CLUSTER_WIDE).doc(
    "How many threads do the background work, such as deleting files."
)

# Limits of single requests.

MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = keys.int_(
    "max.incremental.fetch.session.cache.slots", 1_000, MEDIUM, ACTED, at_least(0)
).doc(
    "How many incremental fetch sessions (KIP-227) are kept; further clients fetch in full each time. All of "
    "them together may hold a million partitions."
)
FETCH_MAX_BYTES = keys.int_("fetch.max.bytes", 55 << 20, MEDIUM, ACTED, at_least(1_024)).doc(
    "The most bytes of records in one fetch response, whatever the client asks for; the first batch always "
    "comes whole."
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = keys.int_(
    "max.request.partition.size.limit", 2_000, MEDIUM, ACTED, at_least(1)
).doc("The most partitions that one DescribeTopicPartitions response holds; clients page through the rest.")
REQUEST_TIMEOUT_MS = keys.int_("request.timeout.ms", 30_000, HIGH, ACTED).doc(
    "How long this broker waits for the answer to a request of its own: of the markers that end transactions."
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS = keys.long(
    "socket.connection.setup.timeout.ms", 10_000, MEDIUM, IN_CLUSTER
).doc(
    "How long this broker first waits for a connection to another broker; the wait grows with each failure."
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = keys.long(
    "socket.connection.setup.timeout.max.ms", 30_000, MEDIUM, IN_CLUSTER
).doc("How long that wait may become.")

# The broker towards its controller, start and stop.

CONTROLLED_SHUTDOWN_ENABLE = keys.boolean("controlled.shutdown.enable", True, MEDIUM, ACTED).doc(
    "Whether a broker that stops first moves its leaderships and has its end recorded in the metadata."
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = keys.int_(
    "initial.broker.registration.timeout.ms", 60_000, MEDIUM, IN_CLUSTER
).doc("How long a starting broker tries to register with the controller before it gives up.")
BROKER_HEARTBEAT_INTERVAL_MS = keys.int_("broker.heartbeat.interval.ms", 2_000, MEDIUM, IN_CLUSTER).doc(
    "How often a broker sends heartbeats to the controller."
)
BROKER_SESSION_TIMEOUT_MS = keys.int_("broker.session.timeout.ms", 9_000, MEDIUM, IN_CLUSTER).doc(
    "How long a silent broker counts as alive; at least twice the heartbeat interval."
)
SERVER_MAX_STARTUP_TIME_MS = keys.long(
    "server.max.startup.time.ms", LONG_MAX, MEDIUM, IN_CLUSTER, at_least(0), internal=True
).doc("How long a start may take before it counts as failed.")

# Authorization of the built-in kind; Kafka leaves these to its authorizer, outside its own catalogue.

SUPER_USERS = keys.string("super.users", "", MEDIUM, ACTED).doc(
    "Principals that may do everything, as User:name, separated by semicolons. It is the authorizer that reads them."
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = keys.boolean("allow.everyone.if.no.acl.found", False, MEDIUM, ACTED).doc(
    "Whether a resource without any ACL is open to everyone."
)
