"""Apache Kafka's own Java clients, in one JVM for all tests."""

from __future__ import annotations

from pathlib import Path

from tests.interop.clients.lines import LineClient

SOURCE = Path(__file__).parents[1] / "java" / "RoundTrip.java"


class JavaClients(LineClient):
    """Drives RoundTrip.java; `classpath` holds its compiled classes and Kafka's."""

    def __init__(self, bootstrap: str, classpath: str) -> None:
        super().__init__(["java", "-Xmx512m", "-cp", classpath, "RoundTrip", bootstrap])

    def create(self, topic: str, partitions: int) -> None:
        """Creates a topic through the Admin client."""
        self.ask("create", topic, partitions)
