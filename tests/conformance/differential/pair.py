"""An Apache Kafka and a Barnabas with the same settings, for random sequences."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from barnabas.protocol.messages.commits import OffsetFetchRequest
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from tests.conformance.differential.connections import Connection, SocketEndpoint
from tests.conformance.differential.settling import until
from tests.conformance.differential.world import Versions
from tests.conformance.kafka_jars import classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess

SETTINGS: Final = {
    "node.id": "1",
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "1800000",
    "group.consumer.max.session.timeout.ms": "1800000",
    "log.retention.hours": "168",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "86400000",
    "log.cleaner.backoff.ms": "86400000",
    "log.segment.bytes": "1073741824",
    "log.index.size.max.bytes": "65536",
    "log.segment.delete.delay.ms": "100",
    "max.incremental.fetch.session.cache.slots": "100000",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.retention.check.interval.ms": "86400000",
    "producer.id.expiration.check.interval.ms": "86400000",
    "transaction.state.log.num.partitions": "4",
}
"""Settings of both: nothing expires while a sequence runs, and old records are retained."""

LATEST_TRANSACTIONS: Final = 2
SAFE_DOWNGRADE: Final = 2
_TRANSACTIONS: Final = "transaction.version"
COORDINATORS_TRIED: Final = 40


def transaction_version(seed: int) -> int:
    """The transaction version of both clusters for that seed: mostly the latest."""
    return (2, 2, 1)[seed % 3]


class Pair:
    """Both brokers, with all coordinators loaded, so that no response has COORDINATOR_LOAD_IN_PROGRESS."""

    def __init__(self, place: Path, *, transaction_version: int = 2) -> None:
        kafka, barnabas = place / "kafka", place / "barnabas"
        kafka.mkdir()
        barnabas.mkdir()
        self.kafka = ApacheKafka(kafka, classpath(), SETTINGS, QUICK_JVM)
        self.barnabas = BrokerProcess(barnabas, {**SETTINGS, "barnabas.profile": "kafka"})
        self.transaction_version = transaction_version

    def __enter__(self) -> Pair:
        try:
            self.kafka.start()
            self.barnabas.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills both."""
        self.kafka.kill()
        self.barnabas.kill()

    def endpoints(self) -> list[SocketEndpoint]:
        """The addresses of both."""
        return [SocketEndpoint(self.kafka.port), SocketEndpoint(self.barnabas.port)]

    async def warm_up(self) -> Versions:
        """Waits until both have loaded all coordinators; returns the versions that both serve."""
        connections = [endpoint.connect() for endpoint in self.endpoints()]
        served = await asyncio.gather(*(self._warm(connection) for connection in connections))
        for connection in connections:
            connection.close()
        first, second = served
        return {
            key: (max(first[key][0], second[key][0]), min(first[key][1], second[key][1]))
            for key in first.keys() & second.keys()
        }

    async def _warm(self, connection: Connection) -> dict[int, tuple[int, int]]:
        for kind in (0, 1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["warm"])
            await until(connection, request, 4, lambda answer: answer.coordinators[0].error_code == 0)
        for number in range(COORDINATORS_TRIED):
            name = f"warm-{number}"
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None)
            await until(
                connection, OffsetFetchRequest(groups=[group]), 8, lambda a: a.groups[0].error_code == 0
            )
            request_id = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            await until(connection, request_id, 4, lambda answer: answer.error_code == 0)
        versions: Any = await (await connection.send(ApiVersionsRequest(), 0))
        served = {api.api_key: (api.min_version, api.max_version) for api in versions.api_keys}
        await self._have_transaction_version(connection)
        return {**served, 0: (3, served[0][1])}

    async def _have_transaction_version(self, connection: Connection) -> None:
        wanted = self.transaction_version
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature=_TRANSACTIONS, max_version_level=wanted, upgrade_type=SAFE_DOWNGRADE
        )
        if wanted < LATEST_TRANSACTIONS:
            await (
                await connection.send(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]), 1)
            )
        request = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
        await until(connection, request, 3, lambda answer: _transaction_level(answer) == wanted)


def _transaction_level(answer: Any) -> int:
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return int(levels.get(_TRANSACTIONS, 0))
