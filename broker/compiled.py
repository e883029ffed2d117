"""Which modules are compiled at installation, by mypyc, from their own source: written down here and nowhere else."""

from __future__ import annotations

from typing import Final

MODULES: Final = (
    "broker.delayed_fetch",
    "broker.delayed_operations",
    "broker.fetch_context",
    "broker.fetch_partition",
    "broker.fetch_session",
    "broker.handlers.fetch",
    "broker.handlers.produce",
    "broker.kafka_apis",
    "broker.network.connection",
    "broker.network.in_flight",
    "broker.network.send_queue",
    "broker.partition",
    "broker.partition_io",
    "broker.probes",
    "broker.purgatory",
    "broker.replica_manager",
    "broker.replica_reader",
    "broker.request",
    "broker.timer",
    "protocol.framing",
    "storage.disk_space",
    "storage.index",
    "storage.local_log",
    "storage.log_state",
    "storage.log_validator",
    "storage.offsets",
    "storage.segment",
    "storage.segment_store",
    "storage.unified_log",
)
