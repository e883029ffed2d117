"""Brokers that take turns on one directory with the same settings: Apache Kafka of any version, and Barnabas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.conformance.handover.history import OVERRIDES
from tests.conformance.kafka_jars import KAFKA_41, KAFKA_VERSION, require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports

KAFKA, OLD_KAFKA, OURS = KAFKA_VERSION, KAFKA_41, "Barnabas"
Broker = ApacheKafka | BrokerProcess


class Directory:
    """A log directory and the ports of its brokers: a node keeps its addresses."""

    def __init__(
        self, place: Path, more: Mapping[str, str] | None = None, *, base: Mapping[str, str] = OVERRIDES
    ) -> None:
        """`more`: settings of all brokers in addition to the `base`."""
        self.place = place
        self._settings = {**base, **(more or {})}
        self.data = place / "data"
        self.ports = held_ports(2)
        self.brokers: dict[str, Broker] = {}

    def broker(self, side: str) -> Broker:
        """The broker of that side; does not start it."""
        if side not in self.brokers:
            self.brokers[side] = self._ours() if side == OURS else self._kafka(side)
        return self.brokers[side]

    def write_properties(self) -> Path:
        """A server.properties with the directory in it, for kafka-storage."""
        path = self.place / "directory.properties"
        settings = {**self._roles(), "log.dirs": str(self.data)}
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def metadata_files(self) -> list[Path]:
        """The newest snapshot of the metadata log and all segments, in order."""
        folder = self.data / "__cluster_metadata-0"
        return [*sorted(folder.glob("*.checkpoint"))[-1:], *sorted(folder.glob("*.log"))]

    def snapshots(self) -> list[Path]:
        """The snapshots of the metadata log, oldest first."""
        return sorted((self.data / "__cluster_metadata-0").glob("*.checkpoint"))

    def end(self) -> None:
        """Kills all brokers."""
        for broker in self.brokers.values():
            broker.kill()

    def _kafka(self, version: str) -> ApacheKafka:
        kafka = ApacheKafka(self.place / f"kafka-{version}", require_classpath(version), self._settings)
        kafka.directory.mkdir(parents=True, exist_ok=True)
        kafka.data_dir = self.data
        kafka.port, kafka.controller_port = self.ports
        return kafka

    def _ours(self) -> BrokerProcess:
        broker = BrokerProcess(self.data, {**self._settings, **self._roles(), "barnabas.profile": "kafka"})
        broker.port = self.ports[0]
        return broker

    def _roles(self) -> dict[str, str]:
        port, controller = self.ports
        return {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }
