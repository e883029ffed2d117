"""Keys that Apache Kafka removed, with their replacements, and keys that belong elsewhere.

A file that was carried from version to version still holds them, and Kafka ignores them silently. The texts say
what to do instead.
"""

from collections.abc import Mapping

GONE: Mapping[str, str] = {
    "advertised.host.name": "use advertised.listeners=PLAINTEXT://host:port",
    "advertised.port": "use advertised.listeners=PLAINTEXT://host:port",
    "host.name": "use listeners=PLAINTEXT://host:port",
    "port": "use listeners=PLAINTEXT://:port",
    "auto.include.jmx.reporter": "leave it out",
    "broker.id.generation.enable": "use node.id, or let Barnabas take the stored one",
    "reserved.broker.max.id": "any node.id from 0 on is allowed",
    "control.plane.listener.name": "the controller lives inside the broker",
    "controlled.shutdown.max.retries": "leave it out",
    "controlled.shutdown.retry.backoff.ms": "leave it out",
    "delegation.token.master.key": "its new name is delegation.token.secret.key",
    "eligible.leader.replicas.enable": "feature levels decide",
    "group.coordinator.new.enable": "there is only the new coordinator",
    "group.share.enable": "feature levels decide",
    "group.share.max.groups": "leave it out",
    "inter.broker.protocol.version": "leave it out, feature levels decide",
    "leader.imbalance.per.broker.percentage": "leave it out",
    "log.message.downconversion.enable": "leave it out, old formats are no longer sent",
    "log.message.format.version": "leave it out, records are stored in format v2",
    "log.message.timestamp.difference.max.ms": (
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "offset.commit.required.acks": "leave it out, commits always wait for all replicas in sync",
    "offsets.commit.required.acks": "leave it out, commits always wait for all replicas in sync",
    "quota.consumer.default": "set quotas with kafka-configs while the broker runs",
    "quota.producer.default": "set quotas with kafka-configs while the broker runs",
    "replica.high.watermark.checkpoint.interval": "use replica.high.watermark.checkpoint.interval.ms",
}

GONE_PREFIXES: Mapping[str, str] = {
    "zookeeper.": "there is no ZooKeeper; leave it out",
    "password.encoder.": "leave it out, it served ZooKeeper",
    "kafka.csv.metrics.": "metrics are served on barnabas.http.port",
    "confluent.": "a key of Confluent Server, not of Apache Kafka; leave it out",
}

# Families of keys whose names users choose.
OPEN_PREFIXES: Mapping[str, str] = {
    "rsm.config.": "tiered storage comes in a later release",
    "rlmm.config.": "tiered storage comes in a later release",
    "config.providers.": "there are no configuration providers",
    "client.quota.callback.": "there is no JVM to load the callback",
    "metrics.jmx.": "metrics are served on barnabas.http.port instead of JMX",
}
