"""The three sets of defaults that a configuration starts from (barnabas.profile).

kafka    Apache Kafka's own defaults, to the letter: what a server.properties file written for it expects to find. It
         applies when a file is given.
dev      One developer's machine or a test run, and what applies without a file: it listens on localhost only,
         keeps its data in ./barnabas-data instead of /tmp, where it would be lost, lets a group's assignments
         happen at once instead of after one or three seconds, and gives the internal topics four partitions instead of
         fifty, which saves 150 directories.
durable  Apache Kafka's defaults, but an acknowledgement waits until its records are on disk: for a broker without
         replicas, where the page cache is the only other copy. Requests that wait at the same moment share one fsync.

A profile is the weakest layer over the defaults: the file, the environment and --override
take precedence.
"""

from collections.abc import Mapping

PROFILES: Mapping[str, Mapping[str, str]] = {
    "kafka": {},
    "dev": {
        "listeners": "PLAINTEXT://localhost:9092",
        # log.dir and not log.dirs: a stronger layer that sets either of the two must win.
        "log.dir": "barnabas-data",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    },
    "durable": {
        "log.flush.interval.messages": "1",
    },
}

# The profile that applies when none is named.
WITHOUT_FILE = "dev"
WITH_FILE = "kafka"
