"""Broker keys for the network: listeners, sockets, limits of connections and of requests in flight.

Source: SocketServerConfigs.
"""

from barnabas.config.catalogue.use import ACTED, BYTES_BOUND, ONE_LOOP
from barnabas.config.keys import CLUSTER_WIDE, HIGH, LOW, MEDIUM, PER_BROKER, KeySet
from barnabas.config.validators import ListOf, at_least
from barnabas.config.values import INT_MAX

keys = KeySet()

# Listeners.

LISTENERS = keys.list_("listeners", ("PLAINTEXT://:9092",), HIGH, ACTED, ListOf(), PER_BROKER).doc(
    "Where the broker listens, as NAME://host:port, comma-separated. No host means every interface; port 0 "
    "takes a free "
    "port and reports it."
)
ADVERTISED_LISTENERS = keys.optional_list("advertised.listeners", None, HIGH, ACTED, ListOf()).doc(
    "The addresses that the broker advertises to clients. When unset, each client gets the address that it "
    "connected to."
)
LISTENER_SECURITY_PROTOCOL_MAP = keys.string(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    LOW,
    ACTED,
    None,
    PER_BROKER,
).doc(
    "Which security protocol each listener name speaks, as NAME:PROTOCOL, comma-separated, of PLAINTEXT, SSL, "
    "SASL_PLAINTEXT and SASL_SSL."
)

# Sockets.

SOCKET_SEND_BUFFER_BYTES = keys.int_("socket.send.buffer.bytes", 100 << 10, HIGH, ACTED).doc(
    "The send buffer (SO_SNDBUF) of a client's connection; -1 leaves it to the operating system."
)
SOCKET_RECEIVE_BUFFER_BYTES = keys.int_("socket.receive.buffer.bytes", 100 << 10, HIGH, ACTED).doc(
    "The receive buffer (SO_RCVBUF) of a client's connection; -1 leaves it to the operating system."
)
SOCKET_LISTEN_BACKLOG_SIZE = keys.int_("socket.listen.backlog.size", 50, MEDIUM, ACTED, at_least(1)).doc(
    "How many connections may wait to be accepted; the operating system may allow fewer."
)
SOCKET_REQUEST_MAX_BYTES = keys.int_("socket.request.max.bytes", 100 << 20, HIGH, ACTED, at_least(1)).doc(
    "The largest request; a connection that claims a larger one is closed."
)

# Connections.

MAX_CONNECTIONS = keys.int_("max.connections", INT_MAX, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE).doc(
    "How many connections the broker holds at the same time; further ones wait to be accepted or are closed."
)
MAX_CONNECTIONS_PER_IP = keys.int_(
    "max.connections.per.ip", INT_MAX, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How many connections one client address may hold; further ones are closed.")
MAX_CONNECTIONS_PER_IP_OVERRIDES = keys.string(
    "max.connections.per.ip.overrides", "", MEDIUM, ACTED, None, CLUSTER_WIDE
).doc("Other limits for single client addresses or host names, as host:count, comma-separated.")
MAX_CONNECTION_CREATION_RATE = keys.int_(
    "max.connection.creation.rate", INT_MAX, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How many new connections the broker accepts in a second; further ones wait to be accepted.")
CONNECTIONS_MAX_IDLE_MS = keys.long("connections.max.idle.ms", 600_000, MEDIUM, ACTED).doc(
    "A connection with no traffic for this long is closed."
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = keys.int_(
    "connection.failed.authentication.delay.ms", 100, LOW, ACTED, at_least(0)
).doc(
    "How long a client that failed to authenticate waits for the answer and the end, so that guessing is slow."
)

# Requests in flight.

QUEUED_MAX_REQUESTS = keys.int_("queued.max.requests", 500, HIGH, BYTES_BOUND, at_least(1)).doc(
    "How many requests may be in flight before the broker stops reading from its clients."
)
QUEUED_MAX_REQUEST_BYTES = keys.long("queued.max.request.bytes", -1, MEDIUM, ACTED).doc(
    "How many bytes of requests may be in flight before the broker stops reading from its clients. With -1, "
    "barnabas.queued.max.request.bytes sets the bound: there always is one."
)
NUM_NETWORK_THREADS = keys.int_("num.network.threads", 3, HIGH, ONE_LOOP, at_least(1), CLUSTER_WIDE).doc(
    "How many threads read requests and write responses."
)
