"""Every metric of the broker, declared once: its name, kind, labels and help text.

The names are those under which dashboards made for Apache Kafka look for its MBeans, in the spelling of
jmx_exporter's example rules: kafka_<domain>_<type>_<name>, lower case, PerSec cut off and _total appended
for counters. A sample to which a label does not apply lacks it: the sums over all topics have no `topic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import Final


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Quantiles of the recent past, and a count of all there have been."""


class Family:
    """One metric. `labels` are the names of its labels, in the order in which sources give their values."""

    def __init__(self, name: str, kind: Kind, labels: Sequence[str], help_text: str) -> None:
        self.name = name
        self.kind = kind
        self.labels = tuple(labels)
        self.help = help_text


FAMILIES: Final[dict[str, Family]] = {}


def _declare(kind: Kind, prefix: str, labels: Sequence[str] = (), /, **families: str) -> None:
    for name, help_text in families.items():
        family = Family(f"{prefix}_{name}", kind, labels, help_text)
        assert family.name not in FAMILIES, f"{family.name} is declared twice"
        FAMILIES[family.name] = family


_gauges = partial(_declare, Kind.GAUGE)
_counters = partial(_declare, Kind.COUNTER)
_summaries = partial(_declare, Kind.SUMMARY)

QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""As dashboards spell them, zeros included."""

TOPIC_PREFIX: Final = "kafka_server_brokertopicmetrics"
_counters(
    TOPIC_PREFIX,
    ["topic"],
    messagesin_total="Records appended for producers.",
    bytesin_total="Bytes of record batches appended for producers.",
    bytesout_total="Bytes of record batches read for consumers.",
    bytesrejected_total="Bytes of record batches refused because they were larger than the topic allows.",
    totalproducerequests_total="Partitions in produce requests, whatever became of them.",
    totalfetchrequests_total="Partitions in fetch requests that were looked into.",
    failedproducerequests_total="Partitions in produce requests that were refused.",
    failedfetchrequests_total="Partitions in fetch requests that could not be read.",
    invalidmessagecrcrecords_total="Record batches refused because they were damaged.",
    invalidmagicnumberrecords_total="Appends refused because their batches were of different formats.",
    invalidoffsetorsequencerecords_total="Record batches refused for a count, offsets or a sequence that cannot be.",
    nokeycompactedtopicrecords_total="Records refused because their topic is compacted and they had no key.",
    producemessageconversions_total="Records taken in batches that were built anew, for another format or codec.",
)

_counters(
    TOPIC_PREFIX,
    replicationbytesin_total="Bytes of record batches that this broker has appended as a follower.",
    replicationbytesout_total="Bytes of record batches read for followers.",
    reassignmentbytesin_total="Those of replicationbytesin that a reassignment brought here.",
    reassignmentbytesout_total="Those of replicationbytesout for replicas that a reassignment adds.",
)
_gauges(
    "kafka_server_leaderreplication",
    byte_rate="Bytes a second sent to followers of throttled partitions (leader.replication.throttled.rate).",
)
_gauges(
    "kafka_server_followerreplication",
    byte_rate="Bytes a second fetched of throttled partitions (follower.replication.throttled.rate).",
)

_gauges(
    "kafka_server_replicamanager",
    leadercount="Partitions that this broker leads.",
    partitioncount="Partitions that this broker has a replica of.",
    underreplicatedpartitions="Partitions led here that have replicas out of sync.",
    underminisrpartitioncount="Partitions led here with fewer in-sync replicas than min.insync.replicas.",
    atminisrpartitioncount="Partitions led here with just as many in-sync replicas as min.insync.replicas.",
    offlinereplicacount="Replicas on this broker that cannot be used because their disk has failed.",
    reassigningpartitions="Partitions led here that are getting other replicas.",
    produceridcount="Producer ids that the partitions on this broker remember.",
    partitionswithlatetransactionscount="Partitions with a transaction that was left open beyond its timeout.",
)

_counters(
    "kafka_server_replicamanager",
    isrshrinks_total="Replicas on other brokers that left the in-sync replicas of a partition led here.",
    isrexpands_total="Replicas on other brokers that joined the in-sync replicas of a partition led here.",
    failedisrupdates_total="Changes of in-sync replicas that the controller rejected.",
)

_gauges(
    "kafka_server_replicafetchermanager",
    maxlag="Records by which the followed partition furthest behind lags.",
    minfetchrate="Requests a second of the slowest fetcher.",
    failedpartitionscount="Followed partitions that are not fetched before their leader changes.",
    deadthreadcount="Fetchers that have ended, which none does.",
)

_counters(
    "kafka_server_plugins",
    authorization_allowed_total="Decisions of the authorizer that allowed something, those kept with connections too.",
    authorization_denied_total="Decisions of the authorizer that denied something.",
)
_gauges("kafka_server_plugins", acls_total_count="Entries of ACLs that the authorizer follows.")

_gauges(
    "kafka_server_fetcherlagmetrics",
    ["clientId", "topic", "partition"],
    consumerlag="Records by which a followed partition is behind its leader's high watermark, once that is known.",
)
_counters(
    "kafka_server_fetcherstats",
    ["clientId", "brokerHost", "brokerPort"],
    requests_total="Requests that a fetcher has sent to its leader.",
    bytes_total="Bytes of records that a fetcher has appended.",
)

_gauges(
    "kafka_server_kafkaserver",
    brokerstate="1 starting, 2 in recovery, 3 running, 6 asking to shut down, 7 shutting down.",
)

_summaries(
    "kafka_server_forwardingmanager",
    queuetimems="Milliseconds that a request for the controller waited before it was sent for the last time.",
    remotetimems="Milliseconds that the controller then took to answer it.",
)
_gauges(
    "kafka_server_forwardingmanager",
    queuelength="Requests of clients for the controller that are not answered yet.",
)

_gauges(
    "barnabas_cluster",
    heartbeat_age_seconds="Seconds since a controller answered a heartbeat of this broker without an error.",
)

_gauges(
    "kafka_server_assignmentsmanager",
    queuedreplicatodirassignments="Log directories of replicas that the controller has not acknowledged.",
)

_gauges(
    "kafka_controller_kafkacontroller",
    activecontrollercount="1 where the active controller is, else 0. The sum over a cluster is 1 in good health.",
    activebrokercount="Brokers that are registered and unfenced.",
    fencedbrokercount="Brokers that are registered and fenced.",
    globaltopiccount="Topics in the cluster.",
    globalpartitioncount="Partitions in the cluster.",
    offlinepartitionscount="Partitions in the cluster that have no leader.",
    preferredreplicaimbalancecount="Partitions in the cluster that are led by another than their first replica.",
)

RAFT_PREFIX: Final = "kafka_server_raft_metrics"
_gauges(
    RAFT_PREFIX,
    current_epoch="The epoch in which metadata records are appended.",
    current_leader="The node that appends them.",
    high_watermark="The offset up to which the metadata log is committed.",
    current_vote="The node that this one has voted for in the current epoch: itself as the leader, else -1.",
    log_end_offset="The offset that the next metadata record will have.",
    log_end_epoch="The epoch of the last metadata record.",
    number_of_voters="Controllers that have a vote.",
    fetch_records_rate="Metadata records fetched a second, over the last half minute.",
)
_gauges(
    RAFT_PREFIX,
    ["state"],
    current_state_info="1 for the state of this node: leader, observer (it follows the leader without a vote) or "
    "unattached (no leader is known).",
)

SNAPSHOT_EMITTER_PREFIX: Final = "kafka_server_snapshotemitter"
_gauges(
    SNAPSHOT_EMITTER_PREFIX,
    latestsnapshotgeneratedbytes="Bytes of the last snapshot of the metadata that was written since the start.",
    latestsnapshotgeneratedagems="Milliseconds since then, or since the start.",
)

BROKER_METADATA_PREFIX: Final = "kafka_server_broker_metadata_metrics"
_gauges(
    BROKER_METADATA_PREFIX,
    last_applied_record_offset="The offset of the last metadata record that the broker goes by.",
    last_applied_record_timestamp="When the controller wrote it, in ms since 1970.",
    last_applied_record_lag_ms="How long ago that was, in ms; a controller writes at least a record every half second.",
    metadata_load_error_count="How many times metadata records could not be read, after which the broker stops.",
    metadata_apply_error_count="How many times since the start a part of the broker could not take new metadata over.",
)

METADATA_LOADER_PREFIX: Final = "kafka_server_metadataloader"
_gauges(
    METADATA_LOADER_PREFIX,
    currentmetadataversion="The level of metadata.version that is in force.",
    currentcontrollerid="The active controller; -1 while none is known.",
    handleloadsnapshotcount="Snapshots of the metadata that were loaded since the start.",
)

_gauges(
    "kafka_cluster_partition",
    ["topic", "partition"],
    underreplicated="1 if the partition, led here, has replicas out of sync.",
    underminisr="1 if the partition, led here, has fewer in-sync replicas than min.insync.replicas.",
    atminisr="1 if the partition, led here, has just as many in-sync replicas as min.insync.replicas.",
    replicascount="Replicas of the partition, if it is led here.",
    insyncreplicascount="In-sync replicas of the partition, if it is led here.",
    laststableoffsetlag="Records between the last stable offset, where transactions end, and the high watermark.",
)

_gauges(
    "kafka_log_log",
    ["topic", "partition"],
    size="Bytes of the partition's segments.",
    logstartoffset="The first offset that the partition still has.",
    logendoffset="The offset that the partition's next record will have.",
    numlogsegments="Segments of the partition.",
)

_gauges(
    "kafka_log_logmanager",
    offlinelogdirectorycount="Log directories that have failed.",
    cordonedlogdirectorycount="Log directories that get no new partitions (cordoned.log.dirs).",
)
_gauges(
    "kafka_log_logmanager",
    ["logDirectory"],
    logdirectoryoffline="1 if the log directory has failed.",
    logdirectorycordoned="1 if the log directory gets no new partitions.",
)
_gauges(
    "kafka_server_replicaalterlogdirsmanager",
    ["clientId"],
    maxlag="How many records a replica that moves to another log directory is behind, of those the farthest.",
    failedpartitionscount="Replicas whose move to another log directory has to wait because something failed.",
)

CLEANER_PREFIX: Final = "kafka_log_logcleaner"
_gauges(
    CLEANER_PREFIX,
    deadthreadcount="Worker places whose last worker ended before its compaction did.",
    cleaner_recopy_percent="How much of what the last compactions read they wrote again.",
    max_clean_time_secs="Seconds that the longest of the last compactions took.",
    max_buffer_utilization_percent="How full the table of keys was in the fullest of the last compactions.",
    max_compaction_delay_secs="Seconds by which the latest log is later than its max.compaction.lag.ms allows.",
)
CLEANER_MANAGER_PREFIX: Final = "kafka_log_logcleanermanager"
_gauges(
    CLEANER_MANAGER_PREFIX,
    max_dirty_percent="How much of the dirtiest log could be compacted.",
    time_since_last_run_ms="Milliseconds since the broker last looked for a log to compact.",
)
_gauges(
    CLEANER_MANAGER_PREFIX,
    ["logDirectory"],
    uncleanable_partitions_count="Partitions that are not compacted any more because that has failed.",
    uncleanable_bytes="Bytes of them that could have been compacted.",
)
CLEANING_PREFIX: Final = "barnabas_compaction"
_gauges(
    CLEANING_PREFIX,
    ["topic", "partition"],
    progress_ratio="How much of a compaction that goes on is done, 0 to 1.",
)
_counters(CLEANING_PREFIX, finished_total="Compactions that came to their end.")

LOG_DIR_PREFIX: Final = "barnabas_log_dir"
_gauges(
    LOG_DIR_PREFIX,
    ["directory"],
    free_bytes="Bytes free on the disk of the log directory, as far as they are known without asking it.",
    min_free_bytes="Bytes that have to be free for producers to be let in; 0 where the guard is off.",
    full="1 while producers are refused because the disk is full, else 0.",
)
_counters(
    LOG_DIR_PREFIX, ["directory"], refused_batches_total="Produced batches refused because the disk is full."
)

REQUEST_PREFIX: Final = "kafka_network_requestmetrics"
_counters(REQUEST_PREFIX, ["request", "version"], requests_total="Requests answered, by API and version.")
_counters(REQUEST_PREFIX, ["request", "error"], errors_total="Errors in answers, by API and error code.")
_summaries(
    REQUEST_PREFIX,
    ["request"],
    totaltimems="Milliseconds from a request's turn to its answer, for the last thousand requests.",
    localtimems="Milliseconds that the broker worked on a request.",
    remotetimems="Milliseconds that a request then waited for records, replicas or the disk.",
    throttletimems="Milliseconds for which a request's client was throttled, of those that were.",
)
_gauges(
    "kafka_network_requestchannel", requestqueuesize="Requests that have arrived and wait for their turn."
)
_counters(
    "barnabas_network",
    ["reason"],
    requests_refused_total="Requests of an API or version that is not served here; their connections were closed.",
)

_IDLE: Final = "The part of the last half minute in which the event loop had nothing to do, 0 to 1."
_gauges("kafka_network_socketserver", networkprocessoravgidlepercent=_IDLE)
_gauges("kafka_server_kafkarequesthandlerpool", requesthandleravgidle_percent=_IDLE)

_gauges(
    "barnabas_event_loop",
    longest_pause_seconds="The longest time in the last one to two minutes in which the event loop ran nothing new: a "
    "lower bound, short by up to 0.1 s on a busy broker and by up to 1 s on an idle one.",
)

LISTENER_PREFIX: Final = "kafka_server_socket_server_metrics"
_gauges(
    LISTENER_PREFIX,
    ["listener", "networkProcessor"],
    connection_count="Connections that are open.",
    connection_creation_rate="Connections made a second, over the last half minute.",
    connection_close_rate="Connections ended a second, over the last half minute.",
    incoming_byte_rate="Bytes received a second, over the last half minute.",
    outgoing_byte_rate="Bytes sent a second, over the last half minute.",
)
_counters(
    LISTENER_PREFIX,
    ["listener", "networkProcessor"],
    successful_authentication_total="Clients that have authenticated.",
    failed_authentication_total="Clients that have failed to authenticate.",
    successful_reauthentication_total="Clients that have authenticated again on the same connection.",
    failed_reauthentication_total="Clients that have failed to authenticate again.",
    successful_authentication_no_reauth_total="Clients that have authenticated and cannot do so again on the same "
    "connection.",
)
_gauges(
    LISTENER_PREFIX,
    ["listener", "networkProcessor"],
    expired_connections_killed_count="Connections closed because they were used after the end of their session.",
    successful_authentication_rate="Clients that authenticate a second, over the last half minute.",
    failed_authentication_rate="Clients that fail to authenticate a second, over the last half minute.",
    successful_reauthentication_rate="Clients that authenticate again a second, over the last half minute.",
    failed_reauthentication_rate="Clients that fail to authenticate again a second, over the last half minute.",
    reauthentication_latency_avg="Milliseconds that re-authentications took, on average of the last thousand.",
    reauthentication_latency_max="Milliseconds that the longest of these re-authentications took.",
)
_gauges(
    "kafka_network_socketserver",
    expiredconnectionskilledcount="Connections closed because they were used after the end of their session.",
)
_gauges(
    "barnabas_network",
    unauthenticated_connections="Open connections whose clients have not authenticated yet.",
    unauthenticated_memory_bytes="Bytes held for clients that have not authenticated yet.",
)
_gauges(
    LISTENER_PREFIX,
    ["clientSoftwareName", "clientSoftwareVersion", "listener"],
    connections_software="Open connections by the client software that they name in ApiVersions.",
)
_gauges(
    LISTENER_PREFIX,
    ["cipher", "protocol", "listener"],
    connections_cipher="Open connections over TLS by their cipher suite and version.",
)
_gauges(
    "barnabas_tls",
    ["listener"],
    certificate_expiry_timestamp_seconds="When the first certificate of a listener's chain expires.",
)
_counters(
    "barnabas_tls",
    ["listener"],
    reloads_total="How often a listener's stores were read again and are used since.",
    reload_failures_total="How often they could not be used, so that the old ones stayed.",
)
_gauges(
    "barnabas_oauthbearer",
    ["listener"],
    jwks_age_seconds="How long ago the keys of the identity provider were fetched that tokens are checked with.",
    jwks_keys="How many of these keys can check a token.",
)
_counters(
    "barnabas_oauthbearer",
    ["listener"],
    jwks_refresh_failures_total="How often these keys could not be fetched again, so that the old ones stayed.",
)
_counters(
    "barnabas_http",
    failed_logins_total="Requests at the HTTP port with a wrong user or password.",
)

_gauges(
    LISTENER_PREFIX,
    ["listener"],
    connection_accept_rate="Connections a second that came, over the windows in which their rate is limited.",
    connection_accept_throttle_time="Milliseconds that connections had to wait for a rate, of those that had to.",
    ip_connection_accept_throttle_time="Milliseconds that connections of an address are held that has too many.",
)
_gauges(
    LISTENER_PREFIX,
    broker_connection_accept_rate="Connections a second that came, of all listeners but that between brokers.",
)

QUOTA_PREFIX: Final = "kafka_server_quota"
_gauges(
    QUOTA_PREFIX,
    ["resource", "user", "clientId"],
    byte_rate="Bytes a second that a user or client id produces or fetches, where there are quotas of these.",
    request_time="The time of requests of a user or client id, in percent of one core, where there are quotas of it.",
    throttle_time="Milliseconds for which a user or client id is throttled, of the times that it is.",
    tokens="Partitions that a user or client id may still create or delete, where there are quotas of these.",
    mutation_rate="Partitions a second that a user or client id creates and deletes.",
)
_gauges(
    QUOTA_PREFIX,
    ["resource"],
    queue_size="Connections that are not read because of a quota.",
    counters="Users and client ids that are counted; only the last thousand of them have series here.",
)
_gauges(
    QUOTA_PREFIX,
    exempt_request_time="The time of requests that no quota is charged with, in percent of one core.",
)

_gauges(
    "kafka_server_delayedoperationpurgatory",
    ["delayedOperation"],
    purgatorysize="Places that waiting requests take, one for each partition that they watch.",
    numdelayedoperations="Requests that wait.",
)
_counters(
    "kafka_server_delayedfetchmetrics",
    ["fetcherType"],
    expires_total="Fetches that waited for records until their timeout, of consumers and of followers.",
)
_gauges(
    "kafka_server_fetchsessioncache",
    numincrementalfetchsessions="Fetch sessions.",
    numincrementalfetchpartitionscached="Partitions in fetch sessions.",
)
_gauges(
    "barnabas_network",
    request_memory_bytes="Bytes of requests that have arrived and are not answered yet.",
    request_memory_limit_bytes="How much that may be before clients have to wait.",
    request_memory_waiting_connections="Connections that are not read because it has been reached.",
)

CLIENT_METRICS_PREFIX: Final = "barnabas_client_metrics"
_gauges(
    CLIENT_METRICS_PREFIX,
    clients="Clients that asked which of their metrics are wanted, or pushed some, and may do so again (KIP-714).",
    series="Series that clients pushed and that are shown here.",
    series_limit="How many there may be.",
)
_counters(
    CLIENT_METRICS_PREFIX, ["code"], pushes_total="Pushes of clients, by the error code that answered them."
)
_counters(
    CLIENT_METRICS_PREFIX,
    ["reason"],
    dropped_points_total="Values that clients pushed and that are not shown.",
)

GROUP_MANAGER_PREFIX: Final = "kafka_coordinator_group_groupmetadatamanager"
_gauges(
    GROUP_MANAGER_PREFIX,
    numgroups="Classic groups that this broker coordinates.",
    numgroupspreparingrebalance="Classic groups that wait for their members to join.",
    numgroupscompletingrebalance="Classic groups that wait for the assignment of their leader.",
    numgroupsstable="Classic groups whose members have their assignments.",
    numgroupsdead="Classic groups that are being removed.",
    numgroupsempty="Classic groups without members.",
    numoffsets="Committed offsets that this broker keeps, of groups of all types.",
)

GROUP_COORDINATOR_PREFIX: Final = "kafka_server_group_coordinator_metrics"
_gauges(GROUP_COORDINATOR_PREFIX, ["protocol"], group_count="Groups, by type.")
_gauges(GROUP_COORDINATOR_PREFIX, ["state"], consumer_group_count="Consumer groups, by state.")
_gauges(
    GROUP_COORDINATOR_PREFIX,
    offset_commit_count="Offsets that were committed, in all.",
    offset_deletion_count="Offsets that somebody deleted, in all.",
    offset_expiration_count="Offsets that have expired, in all.",
    group_completed_rebalance_count="Rebalances of classic groups that came to an assignment, in all.",
    consumer_group_rebalance_count="Epochs that consumer groups have begun, in all.",
)

TRANSACTION_COORDINATOR_PREFIX: Final = "kafka_server_transaction_coordinator_metrics"
_gauges(TRANSACTION_COORDINATOR_PREFIX, transactional_id_count="Transactional ids that are known.")
MARKER_CHANNEL_PREFIX: Final = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
_gauges(
    MARKER_CHANNEL_PREFIX,
    unknowndestinationqueuesize="Markers of transactions that wait for a partition that could not take them.",
    logappendretryqueuesize="Transactions that have all their markers, and not yet the record that says so.",
)
_gauges("barnabas", ["state"], transactions="Transactional ids, by the state of their transaction.")


def _declare_runtime(prefix: str) -> None:
    """What both coordinators show of their runtime."""
    _gauges(prefix, ["state"], num_partitions="Partitions of the topic, by the state of their shard.")
    _gauges(
        prefix,
        partition_load_time_max="The longest that a partition took to load in the last 30 s, in ms.",
        partition_load_time_avg="How long partitions took to load in the last 30 s, in ms.",
    )
    for metric, text in {
        "event_processing_time_ms": "operations took, without the wait for their commit, in ms",
        "event_purgatory_time_ms": "batches of records took from the first record to their commit, in ms",
        "batch_linger_time_ms": "records were gathered before they were written, in ms",
        "batch_flush_time_ms": "it took to append a batch, in ms",
    }.items():
        for suffix in ("max", "p50", "p95", "p99", "p999"):
            _gauges(prefix, **{f"{metric}_{suffix}": f"How long ({suffix}) {text}."})


_declare_runtime(GROUP_COORDINATOR_PREFIX)
_declare_runtime(TRANSACTION_COORDINATOR_PREFIX)

VERIFICATION_PREFIX: Final = "kafka_server_addpartitionstotxnmanager"
_summaries(
    VERIFICATION_PREFIX,
    verificationtimems="How long partitions waited to hear whether they belong to a transaction, in ms.",
)
_gauges(
    VERIFICATION_PREFIX, verificationfailurerate_count="Partitions that were told that they do not, in all."
)

_gauges(
    "kafka_consumergroup",
    ["consumergroup", "topic", "partition"],
    current_offset="The offset that a group has committed; -1 for a partition of which it has none.",
    lag="How many offsets a group is behind the end of a partition; -1 where it has committed none.",
)
_gauges(
    "kafka_consumergroup",
    ["consumergroup", "topic"],
    current_offset_sum="The committed offsets of a group, over the partitions of a topic.",
    lag_sum="The lag of a group, over the partitions of a topic.",
)
_gauges("kafka_consumergroup", ["consumergroup"], members="Members of a group.")
_gauges("kafka_topic", ["topic"], partitions="Partitions of a topic.")
_gauges(
    "kafka_topic_partition",
    ["topic", "partition"],
    current_offset="Where a partition ends for consumers: its high watermark.",
    oldest_offset="Where a partition begins.",
)
