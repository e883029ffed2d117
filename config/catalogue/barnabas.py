"""Our own keys, each with the prefix `barnabas.`, which Apache Kafka ignores."""

from barnabas.config.catalogue.use import ACTED, IN_CLUSTER
from barnabas.config.keys import HIGH, LOW, MEDIUM, KeySet
from barnabas.config.validators import OneOf, Satisfies, at_least, between, is_list_of_http_hosts

keys = KeySet()

BARNABAS_PROFILE = keys.string(
    "barnabas.profile", "kafka", HIGH, ACTED, OneOf("dev", "kafka", "durable")
).doc(
    "The set of defaults to start from: `kafka` is Apache Kafka's own, `dev` suits one developer's machine "
    "and is used "
    "when no file is given, `durable` has each acknowledgement wait for the disk."
)
BARNABAS_HTTP_HOST = keys.string("barnabas.http.host", "localhost", MEDIUM, ACTED).doc(
    "The address on which metrics and health are served over HTTP; empty means every interface."
)
BARNABAS_HTTP_PORT = keys.int_("barnabas.http.port", 9644, MEDIUM, ACTED, between(-1, 65_535)).doc(
    "The port for /metrics, /health/live, /health/ready and compaction on request; 0 takes a free port and reports it, "
    "-1 serves none of them. Every client that can reach it may use all of it, unless barnabas.http.security.protocol "
    "asks for a login; see barnabas.http.allowed.hosts for the names under which they reach it."
)
BARNABAS_HTTP_WITHOUT_LOGIN_ALLOW = keys.boolean(
    "barnabas.http.without.login.allow", False, MEDIUM, ACTED
).doc(
    "Whether the HTTP port may be reached from other hosts without a login while authorizer.class.name restricts what "
    "clients of the other ports may do: it shows the names of topics and groups, and compacts topics on request. By "
    "default such a broker does not start; barnabas.http.security.protocol has a login asked for instead."
)
BARNABAS_HTTP_ALLOWED_HOSTS = keys.list_(
    "barnabas.http.allowed.hosts",
    (),
    MEDIUM,
    ACTED,
    Satisfies(
        is_list_of_http_hosts,
        "a comma-separated list of names without scheme and port, of .name for a name and all below it, or *",
    ),
).doc(
    "Further names under which clients may reach the HTTP port, so that a web page in a browser that reaches the "
    "broker cannot read it under a name of its own (DNS rebinding). Always accepted are IP addresses, names without a "
    "dot (those of containers and services), names that end in .localhost, .local or .internal, the hostname, and the "
    "hosts in listeners, advertised.listeners and barnabas.http.host. A request for any other name is rejected with "
    "status 421: what Prometheus or a proxy asks for by a name in the DNS belongs here, such as "
    "`metrics.example.com`, `.example.com`, or `.svc` for `broker.namespace.svc` in Kubernetes. `*` accepts any name "
    "and turns the check off."
)
BARNABAS_CLUSTER_UNENFORCED_ACLS_ALLOW = keys.boolean(
    "barnabas.cluster.unenforced.acls.allow", False, HIGH, IN_CLUSTER
).doc(
    "Whether a member without an authorizer serves in a cluster that has ACLs, and so without enforcing them: whoever "
    "reaches its ports may then read and write everything. By default such a broker does not start. With "
    "authorizer.class.name it enforces them."
)
BARNABAS_AUTHORIZER_AUDIT_INTERVAL_MS = keys.long(
    "barnabas.authorizer.audit.interval.ms", 0, LOW, ACTED, at_least(0)
).doc(
    "How long the audit log says nothing more of a denial once it has a line for the same principal, host, operation "
    "and resource; the next line has the number of those that were left out. 0 writes every one, as Apache Kafka does."
)
BARNABAS_CLIENT_METRICS_MAX_SERIES = keys.int_(
    "barnabas.client.metrics.max.series", 10_000, LOW, ACTED, at_least(0)
).doc(
    "How many series of metrics that clients push (KIP-714) are shown at /metrics; what is beyond is left out and "
    "counted. With 0, or without the HTTP port to show them on, clients do not learn that they can push."
)
BARNABAS_LOG_DIR_MIN_FREE_BYTES = keys.long(
    "barnabas.log.dir.min.free.bytes", -1, HIGH, ACTED, at_least(-1)
).doc(
    "How many bytes stay free on the disk of each log directory: with fewer, producers and new topics are rejected "
    "there until there is room again, while fetches, retention, deletions, compaction and checkpoints continue. "
    "-1 keeps a twentieth of the disk free and 256 MiB at most; 0 turns the guard off, and an append fails when the "
    "disk is full to the last byte."
)
BARNABAS_LOG_DIR_SPACE_CHECK_INTERVAL_MS = keys.long(
    "barnabas.log.dir.space.check.interval.ms", 1000, LOW, ACTED, at_least(1)
).doc(
    "How often the free bytes of each log directory are measured. In between, appended bytes are counted, so that "
    "a longer interval only delays the notice of room that other programs free or use."
)
BARNABAS_QUEUED_MAX_REQUEST_BYTES = keys.long(
    "barnabas.queued.max.request.bytes", 256 << 20, MEDIUM, ACTED, at_least(1)
).doc(
    "How many bytes of requests may be in flight when queued.max.request.bytes sets no limit. A request "
    "larger than what "
    "is left waits until it is alone."
)
BARNABAS_AUTHENTICATION_TIMEOUT_MS = keys.int_(
    "barnabas.authentication.timeout.ms", 30_000, MEDIUM, ACTED, at_least(1)
).doc(
    "How long a client may take from connecting to the end of its TLS handshake and its SASL login; then the "
    "connection closes. Kafka sets no such limit; without one a client that sends nothing costs a connection for "
    "connections.max.idle.ms."
)
BARNABAS_JAAS_CONFIG_FILE = keys.optional_string("barnabas.jaas.config.file", None, MEDIUM, ACTED).doc(
    "The static JAAS file, with an entry <listener>.KafkaServer or KafkaServer for listeners whose mechanisms have no "
    "sasl.jaas.config. When unset, the one that KAFKA_OPTS names by -Djava.security.auth.login.config."
)
BARNABAS_OAUTHBEARER_ALLOW_UNSECURED = keys.boolean(
    "barnabas.oauthbearer.allow.unsecured", False, MEDIUM, ACTED
).doc(
    "Whether OAUTHBEARER may take tokens that are not signed, by which every client is whom it wants to be: for tests "
    "alone. Apache Kafka takes them unless sasl.server.callback.handler.class names another class."
)
BARNABAS_HANDSHAKE_THREADS = keys.int_("barnabas.handshake.threads", 2, LOW, ACTED, between(1, 64)).doc(
    "How many threads do the arithmetic of TLS handshakes, which would hold up the requests of all clients."
)
BARNABAS_TLS_RELOAD_INTERVAL_MS = keys.long(
    "barnabas.tls.reload.interval.ms", 60_000, LOW, ACTED, at_least(0)
).doc(
    "How often the files of key stores and trust stores are checked for changes: a certificate that was renewed in "
    "place is then used for new connections, without a restart. A file that cannot be used leaves the old one in use "
    "and is logged and counted. 0 checks only when kafka-configs sets a key of the listener."
)
BARNABAS_LOG_FORMAT = keys.string(
    "barnabas.log.format", "auto", LOW, ACTED, OneOf("auto", "text", "json")
).doc("How the broker's own log lines are written: `auto` is text on a terminal and JSON otherwise.")
BARNABAS_LOG_LEVEL = keys.string(
    "barnabas.log.level", "info", LOW, ACTED, OneOf("DEBUG", "INFO", "WARNING", "ERROR", ignore_case=True)
).doc("The least severe lines of the broker's own log that are written.")
