"""1,000 leaders move: kill -9 of the broker that leads them, until each partition is served by another broker.

The controller fences the dead broker broker.session.timeout.ms after its last heartbeat, which is most of the time from
the kill on, and depends on when that heartbeat was. So the time from the fencing on is measured too: the controller is
Apache Kafka's in both clusters, and logs when it fences a broker. A partition is served when a broker answers
ListOffsets as its leader.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.cli.admin.calls.reassignments import elect_leaders
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.protocol.messages.offsets import LATEST, ListOffsetsRequest, ListOffsetsResponse
from bench.cluster import many
from bench.cluster.clusters import BROKERS, Cluster
from bench.cluster.figures import Group
from tests.conformance.broker_connection import BrokerConnection
from tests.support.cluster.names import LOOPBACK
from tests.support.cluster.rig import FIRST_CONTROLLER
from tests.support.cluster.waiting import wait_until

KILLED: Final = many.FIRST
OTHERS: Final = [node for node in BROKERS if node != KILLED]
LIMIT_S: Final = 120.0
PREFERRED: Final = 0
_VERSION: Final = 7
_CONSUMER: Final = -1
_POLL_S: Final = 0.005
_FENCED: Final = re.compile(
    r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] .*Fencing broker (\d+) .*session has timed out",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Leaders:
    """The row."""

    name: str = "leaders"
    group: Group = Group.LEADERS

    @property
    def title(self) -> str:
        """What the report calls it."""
        return f"{many.PARTITIONS // 2:,} leaders"

    def measure(self, cluster: Cluster, scale: float) -> Sequence[dict[str, float]]:
        """Kills the broker, and has it lead as before in the end."""
        moved = range(many.filled(cluster, scale) // 2)
        log = cluster.rig.controllers[FIRST_CONTROLLER].files.server_log
        position = log.stat().st_size
        asked = [Asked(node, cluster.rig.shape.brokers[node].client) for node in OTHERS]
        for broker in asked:
            broker.served(moved[:1])  # connects
        killed_at = time.time()
        cluster.rig.kill(KILLED)
        served_at = wait_until_served(asked, moved)
        _wait_for_metadata(cluster)
        fenced = fenced_at(_from(log, position), KILLED)
        _lead_again(cluster, moved)
        return [figures_of(killed_at, fenced, served_at)]


def figures_of(killed_at: float, fenced: float, served_at: float) -> dict[str, float]:
    """Seconds from the kill and from the fencing; all moments are seconds of the wall clock."""
    return {"whole_s": served_at - killed_at, "after_fencing_s": served_at - fenced}


class Asked:
    """A connection to one broker, which is asked what it serves."""

    def __init__(self, node: int, port: int) -> None:
        self.node = node
        self._connection = BrokerConnection(LOOPBACK, port, "bench")

    def served(self, partitions: Collection[int]) -> set[int]:
        """Those of these partitions that the broker serves as their leader."""
        wanted = [
            ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=LATEST)
            for number in partitions
        ]
        topic = ListOffsetsRequest.ListOffsetsTopic(name=many.TOPIC, partitions=wanted)
        request = ListOffsetsRequest(replica_id=_CONSUMER, topics=[topic])
        answer = self._connection.request(request, _VERSION)
        assert isinstance(answer, ListOffsetsResponse)
        return {
            each.partition_index
            for found in answer.topics
            for each in found.partitions
            if each.error_code == 0
        }

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def wait_until_served(asked: Sequence[Asked], partitions: Collection[int], limit_s: float = LIMIT_S) -> float:
    """The moment (seconds of the wall clock) at which the last of these partitions is served by one of the brokers.

    Before the first one is served only that is asked for: the answers cost the brokers time.
    """
    left, deadline = sorted(partitions), time.monotonic() + limit_s
    has_begun = False
    try:
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(left)} partitions are not served after {limit_s:g} s")
            probe = left if has_begun else left[:1]
            served = {number for broker in asked for number in broker.served(probe)}
            left = [number for number in left if number not in served]
            has_begun = has_begun or bool(served)
            if not served:
                time.sleep(_POLL_S)
        return time.time()
    finally:
        for broker in asked:
            broker.close()


def _wait_for_metadata(cluster: Cluster) -> None:
    """Until no broker that runs names the dead one as a leader, which is checked and not measured."""

    def stale() -> list[tuple[int, int]]:
        return [
            (node, at.partition)
            for node in OTHERS
            for at, each in cluster.rig.partitions([many.TOPIC], [node]).items()
            if each.leader in (None, KILLED)
        ]

    wait_until("other leaders are known", stale, LIMIT_S)


def fenced_at(logged: str, broker: int) -> float:
    """When the controller logged that it fenced a broker, in seconds of the wall clock. Raises LookupError."""
    for moment, milliseconds, fenced in _FENCED.findall(logged):
        if int(fenced) == broker:
            return time.mktime(time.strptime(moment, "%Y-%m-%d %H:%M:%S")) + int(milliseconds) / 1000
    raise LookupError(f"the controller has not logged that it fenced broker {broker}")


def _from(path: Path, position: int) -> str:
    with path.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")


def _lead_again(cluster: Cluster, partitions: Collection[int]) -> None:
    """Starts the broker, waits until it is in sync, and has it elected."""
    cluster.rig.start_node(KILLED)
    cluster.rig.wait_in_sync([many.TOPIC], LIMIT_S)
    wanted = [TopicPartition(many.TOPIC, number) for number in partitions]
    cluster.rig.ask(lambda admin: elect_leaders(admin, PREFERRED, wanted))

    def missing() -> list[int]:
        found = cluster.rig.partitions([many.TOPIC], [KILLED])
        return [at.partition for at, each in found.items() if each.leader != each.replicas[0]]

    wait_until("the preferred leaders lead", missing, LIMIT_S)
