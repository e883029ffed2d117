"""ClusterRig: a Kafka cluster of processes, whose brokers are JVMs or Barnabas, and what a test does to it.

    with ClusterRig(directory, "jbb", classpath) as rig:      # one controller; brokers 1 (JVM), 2 and 3 (Barnabas)
        rig.create_topic("t", assignment={0: [1, 2, 3]})
        rig.kill(1)
        rig.wait_leader(At("t", 0), not_in={1})
        rig.start_node(1)
        rig.settle()                # everything runs, nothing is cut, all replicas in sync: ready for the next test

A rig waits for conditions, never for time. All that is done to the cluster is noted in `timeline`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from barnabas.cli.admin.calls.cluster import describe_cluster
from barnabas.cli.admin.calls.configs import alter_configs
from barnabas.cli.admin.calls.reassignments import alter_reassignments, list_reassignments
from barnabas.cli.admin.calls.topics import (
    NewTopic,
    PartitionInfo,
    create_topic,
    delete_topics,
    describe_topics,
    list_topics,
)
from barnabas.cli.admin.client import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, AdminClient
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.names import ResourceType
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.cli.admin.settings import Address, ClientSettings
from barnabas.protocol.wire import uuid_to_string
from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import MetaProperties
from tests.support.apache_kafka import release_of
from tests.support.cluster.history import At
from tests.support.cluster.names import CLIENTS, LOOPBACK, hosts_of
from tests.support.cluster.network import Network
from tests.support.cluster.nodes import (
    TEST_JVM,
    BarnabasLauncher,
    ClusterNode,
    Implementation,
    JvmLauncher,
    JvmSettings,
    Launcher,
    NodeFiles,
)
from tests.support.cluster.settings import (
    FOR_TESTS,
    ClusterShape,
    Ports,
    broker_settings,
    controller_settings,
)
from tests.support.cluster.waiting import LIMIT_S, wait_for, wait_until
from tests.support.ports import held_ports

T = TypeVar("T")

FIRST_CONTROLLER: Final = 101
NOT_SERVED: Final = {"share.version": (4, 1), "streams.version": (4, 1)}
"""Features that a Barnabas broker cannot serve, and the first release whose controller may finalize them."""


class ClusterRig:
    """The cluster and its network. `layout` has a letter for each broker: j for a JVM, b for Barnabas.

    A `direct` cluster has no network: nodes connect to each other as they would without the rig, and no fault can act
    between them. That, `jvm` and `tuning` are for benchmarks. `overrides` come last.
    """

    def __init__(
        self,
        directory: Path,
        layout: str,
        classpath: str,
        *,
        controllers: int = 1,
        log_dirs: int = 1,
        overrides: Mapping[str, str] | None = None,
        clients_through_network: bool = False,
        direct: bool = False,
        jvm: JvmSettings = TEST_JVM,
        tuning: Mapping[str, str] = FOR_TESTS,
    ) -> None:
        assert not (direct and clients_through_network)
        self.directory = directory
        self.layout = layout
        self.log_dirs = log_dirs
        self.network = Network()
        self.timeline: list[str] = []
        self.cluster_id = _random_uuid()
        self.overrides = dict(overrides or {})
        self.release = release_of(classpath)
        """Of the controllers and of the JVM brokers."""
        self._tuning = tuning
        self._jvm = JvmLauncher(classpath, jvm, resolves_names=not direct)
        self._launchers: dict[Implementation, Launcher] = {
            Implementation.JVM: self._jvm,
            Implementation.BARNABAS: BarnabasLauncher(resolves_names=not direct),
        }
        self._clients_through_network = clients_through_network
        self._began = time.monotonic()
        self._admins: dict[tuple[Address, ...], AdminClient] = {}
        controller_ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        self.shape = ClusterShape(
            {node: _two_ports() for node in controller_ids},
            {node: _two_ports() for node in range(1, len(layout) + 1)},
            direct,
        )
        self.controllers = {
            node: self._node(node, Implementation.JVM, is_controller=True) for node in controller_ids
        }
        self.brokers = {
            node: self._node(node, Implementation(letter), log_dirs=log_dirs)
            for node, letter in enumerate(layout, 1)
        }

    @property
    def nodes(self) -> dict[int, ClusterNode]:
        """Controllers and brokers by id."""
        return {**self.controllers, **self.brokers}

    @property
    def bootstrap(self) -> str:
        """The value of a client's bootstrap.servers."""
        return ",".join(f"{host}:{port}" for host, port in self._client_addresses())

    # ---- life

    def start(self) -> ClusterRig:
        """Formats the directories, starts all nodes and waits until all brokers serve."""
        self.configure_nodes()
        self._format()
        for node in self.nodes.values():
            node.spawn()
        self.wait_unfenced(self.brokers)
        self.note("started")
        return self

    def close(self) -> None:
        """Kills all nodes and ends the network."""
        for admin in self._admins.values():
            admin.close()
        for node in self.nodes.values():
            node.kill()
        self.network.close()

    def stop(self) -> None:
        """Stops all nodes, brokers first, as an operator would who wants their directories whole."""
        for nodes in (self.brokers, self.controllers):
            _stop_all([node for node in nodes.values() if node.is_running])
        self.note("stopped")

    def settle(self) -> None:
        """Ends all faults, starts what is stopped, and waits until all brokers and replicas are back."""
        self.network.heal()
        self.restart_missing()
        self.wait_in_sync()
        self.note("settled")

    def restart_missing(self) -> None:
        """Has every node run, and all brokers serve."""
        for node in self.nodes.values():
            node.resume()
            if not node.is_running:
                node.spawn()
        self.wait_unfenced(self.brokers)

    def restore(self, layout: str) -> None:
        """Settles, after putting back the implementations that a test has swapped."""
        for node, letter in enumerate(layout, 1):
            if self.brokers[node].implementation is not Implementation(letter):
                self.brokers[node].kill()
                self.brokers[node].implementation = Implementation(letter)
        self.settle()

    # ---- what is done to nodes

    def kill(self, *nodes: int) -> None:
        """kill -9."""
        for node in nodes:
            self.nodes[node].kill()
            self.note(f"killed {self.nodes[node]}")

    def stop_node(self, node: int) -> int:
        """Stops a node cleanly; returns its exit status."""
        status = self.nodes[node].stop()
        self.note(f"stopped {self.nodes[node]}, status {status}")
        return status

    def start_node(self, node: int, *, wait: bool = True) -> None:
        """Starts a stopped node, and waits until it serves."""
        self.nodes[node].spawn()
        self.note(f"started {self.nodes[node]}")
        if wait and node in self.brokers:
            self.wait_unfenced([node])

    def pause(self, node: int) -> None:
        """SIGSTOP."""
        self.nodes[node].pause()
        self.note(f"paused {self.nodes[node]}")

    def resume(self, node: int) -> None:
        """SIGCONT."""
        self.nodes[node].resume()
        self.note(f"resumed {self.nodes[node]}")

    def swap(self, node: int, implementation: Implementation) -> None:
        """Stops a broker cleanly and starts the other implementation on its directories."""
        self.stop_node(node)
        self.brokers[node].implementation = implementation
        self.start_node(node)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        (error,) = self.ask(lambda admin: delete_topics(admin, [name])).values()
        assert error is None, error
        self.note(f"deleted {name}")

    def twin(self, node: int) -> ClusterNode:
        """A node with the id of a broker, in a directory and on ports of its own; whoever asks for it kills it."""
        files = NodeFiles(self.directory / f"twin-{node}")
        shape = self.shape._replace(brokers={**self.shape.brokers, node: _two_ports()})
        files.directory.mkdir(parents=True, exist_ok=True)
        settings = broker_settings(shape, node, files.log_dirs, tuning=self._tuning)
        files.write(settings, hosts_of(node, self.nodes))
        twin = ClusterNode(node, self.brokers[node].implementation, files, self._launchers)
        self._identity(twin).write(RealEnv(), str(files.log_dirs[0]))
        return twin

    def move(self, moves: Mapping[At, Sequence[int] | None]) -> None:
        """Begins to move partitions to these brokers; None cancels a move."""
        targets = {TopicPartition(*at): target for at, target in moves.items()}
        for partition, error in self.ask(lambda admin: alter_reassignments(admin, targets)).items():
            if error is not None:
                raise AssertionError(f"{partition}: {error}")
        self.note(f"moving {', '.join(f'{at} to {target}' for at, target in moves.items())}")

    def wait_replicas(self, at: At, replicas: Sequence[int], limit_s: float = LIMIT_S) -> None:
        """Until a partition has these replicas, the preferred leader first, for the brokers too."""
        wait_until(
            f"the replicas of {at} are {replicas}",
            lambda: [found for found in [self.partition(at).replicas] if found != list(replicas)],
            limit_s,
        )

    def wait_moved(self, limit_s: float = LIMIT_S) -> None:
        """Until no partition moves."""
        wait_until("no partition moves", lambda: self.ask(list_reassignments), limit_s)

    def configure(self, kind: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
        """Sets dynamic keys of a topic or broker; None removes one."""
        self.ask(lambda admin: alter_configs(admin, {(kind, name): changes}))

    # ---- what the cluster says

    def ask(self, question: Callable[[AdminClient], T], among: Iterable[int] | None = None) -> T:
        """The answer to a question that a client asks one of the brokers that run, or one of `among`."""
        asked = None if among is None else set(among)
        addresses = tuple(Address(host, port) for host, port in self._client_addresses(asked))
        if addresses not in self._admins:
            self._admins[addresses] = AdminClient(_impatient(addresses))
        try:
            return question(self._admins[addresses])
        except (AdminError, OSError):
            self._admins.pop(addresses).close()  # one of its connections may be to a frozen broker
            raise

    def unfenced(self, among: Iterable[int] | None = None) -> set[int]:
        """The brokers that the cluster counts on, as these brokers know it (by default any)."""
        return {node.id for node in self.ask(describe_cluster, among).nodes}

    def client_port_of(self, node: int) -> int:
        """The port at which clients are told to find a broker."""
        (found,) = [each.port for each in self.ask(describe_cluster).nodes if each.id == node]
        return found

    def group_coordinator(self, group: str) -> int:
        """The broker that coordinates a group."""
        return self._coordinator(group, GROUP_COORDINATOR)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates the transactions of a producer."""
        return self._coordinator(transactional_id, TRANSACTION_COORDINATOR)

    def partition(self, at: At) -> PartitionInfo:
        """What a broker says about one partition."""
        (topic,) = self.ask(lambda admin: describe_topics(admin, [at.topic]))
        return topic.partitions[at.partition]

    def running(self) -> list[int]:
        """The brokers that can answer."""
        return [node.id for node in self.brokers.values() if node.is_running and not node.is_paused]

    def partitions(
        self, topics: Iterable[str] | None = None, among: Iterable[int] | None = None
    ) -> dict[At, PartitionInfo]:
        """All partitions of these topics, or of all, as one of these brokers knows them."""

        def ask(admin: AdminClient) -> dict[At, PartitionInfo]:
            names = [topic.name for topic in list_topics(admin)] if topics is None else list(topics)
            return {
                At(topic.name, each.number): each
                for topic in describe_topics(admin, names)
                for each in topic.partitions
            }

        return self.ask(ask, among)

    def partition_directory(self, node: int, at: At) -> Path | None:
        """Where a broker keeps its replica; None if it has none."""
        found = [each / str(at) for each in self.brokers[node].files.log_dirs if (each / str(at)).is_dir()]
        return found[0] if found else None

    # ---- waits

    def wait_unfenced(self, nodes: Iterable[int], limit_s: float = LIMIT_S) -> None:
        """Until these brokers are unfenced, as every broker that runs knows it. Fails where a process has ended."""
        wanted = set(nodes)

        def missing() -> set[int]:
            for node in (*self.controllers.values(), *(self.brokers[each] for each in wanted)):
                assert node.pid
            return {node for broker in self.running() for node in wanted - self.unfenced(among=[broker])}

        wait_until("brokers are unfenced", missing, limit_s)

    def wait_fenced(self, node: int, limit_s: float = LIMIT_S) -> None:
        """Until the cluster no longer counts on a broker."""
        wait_until(f"broker {node} is fenced", lambda: {node} & self.unfenced(), limit_s)
        self.note(f"{node} is fenced")

    def wait_leader(self, at: At, *, not_in: Iterable[int] = (), limit_s: float = LIMIT_S) -> int:
        """The leader, as soon as there is one that is none of these."""
        excluded = set(not_in)

        def look() -> int | None:
            leader = self.partition(at).leader
            return None if leader is None or leader in excluded else leader

        return wait_for(f"{at} has a leader that is not in {excluded}", look, limit_s)

    def wait_isr(self, at: At, isr: Iterable[int], limit_s: float = LIMIT_S) -> None:
        """Until the in-sync replicas are these."""
        wanted = set(isr)
        wait_until(f"the ISR of {at} is {wanted}", lambda: wanted ^ set(self.partition(at).isr), limit_s)

    def wait_in_sync(self, topics: Iterable[str] | None = None, limit_s: float = LIMIT_S) -> None:
        """Until each partition has a leader and all its replicas are in sync, as every broker that runs knows it."""

        def missing() -> dict[str, object]:
            return {
                str(at): (each.leader, each.replicas, each.isr)
                for broker in self.running()
                for at, each in self.partitions(topics, [broker]).items()
                if each.leader is None or set(each.isr) != set(each.replicas)
            }

        wait_until("all replicas are in sync", missing, limit_s)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> list[At]:
        """Creates a topic, with all replicas that the shape allows, and waits until it can be used."""
        new = NewTopic(name, partitions, self.shape.replication_factor, assignment, configs)
        self.ask(lambda admin: create_topic(admin, new))
        self.wait_in_sync([name])
        return [At(name, number) for number in range(len(assignment) if assignment else partitions)]

    # ---- reports

    def note(self, text: str) -> None:
        """Adds a line to the timeline."""
        self.timeline.append(f"{time.monotonic() - self._began:8.2f} s  {text}")

    def report(self) -> str:
        """The timeline and the ends of all logs."""
        logs = (f"--- {node}\n{node.tail()}" for node in self.nodes.values())
        return "\n".join([f"directory {self.directory}", *self.timeline, *logs])

    # ---- parts

    def configure_nodes(self) -> None:
        """Writes what the nodes are started from, and has the links between them listen."""
        for node in self.nodes.values():
            self._write_configuration(node)
        self._link()

    def _coordinator(self, key: str, key_type: int) -> int:
        """With a client of its own: others remember a coordinator until a request to it fails."""
        addresses = tuple(Address(host, port) for host, port in self._client_addresses())
        with AdminClient(_impatient(addresses)) as admin:
            return admin.coordinator_of(key, key_type)

    def _node(
        self, node: int, implementation: Implementation, *, is_controller: bool = False, log_dirs: int = 1
    ) -> ClusterNode:
        files = NodeFiles(self.directory / f"node-{node}", log_dirs)
        return ClusterNode(node, implementation, files, self._launchers, is_controller=is_controller)

    def _client_addresses(self, among: set[int] | None = None) -> list[tuple[str, int]]:
        asked = [node for node in self.brokers.values() if among is None or node.id in among]
        running = [node for node in asked if node.is_running and not node.is_paused]
        return [(LOOPBACK, self.shape.brokers[node.id].client) for node in running or asked]

    def _write_configuration(self, node: ClusterNode) -> None:
        if node.is_controller:
            settings = controller_settings(self.shape, node.id, node.files.log_dirs[0], self._tuning)
        else:
            clients = self._host_for_clients(node)
            settings = broker_settings(self.shape, node.id, node.files.log_dirs, clients, self._tuning)
        node.files.directory.mkdir(parents=True, exist_ok=True)
        node.files.write({**settings, **self.overrides}, hosts_of(node.id, self.nodes))

    def _host_for_clients(self, node: ClusterNode) -> str:
        """The host that clients are told, once there is a link to it where there are links."""
        if self.shape.is_direct:
            return LOOPBACK
        host = self.network.link(CLIENTS, node.id, self.shape.brokers[node.id].client)
        return host if self._clients_through_network else LOOPBACK

    def _link(self) -> None:
        """A link from each node to each other one that it may call."""
        if self.shape.is_direct:
            return
        for opener in self.nodes:
            for opened, ports in {**self.shape.controllers, **self.shape.brokers}.items():
                if opener in self.brokers or opened in self.controllers:
                    self.network.link(opener, opened, ports.internal)

    def _format(self) -> None:
        """Controllers by Kafka's own tool, since their directory has the cluster's first records."""
        voters = ",".join(
            f"{node}@{self.shape.host_of(node)}:{ports.internal}:{_random_uuid()}"
            for node, ports in self.shape.controllers.items()
        )
        words = ["format", "-t", self.cluster_id, "--initial-controllers", voters]
        if "b" in self.layout:
            known = [feature for feature, since in NOT_SERVED.items() if self.release >= since]
            words += [word for feature in known for word in ("--feature", f"{feature}=0")]
        running = [self._format_controller(node, words) for node in self.controllers.values()]
        for process, node in zip(running, self.controllers.values(), strict=True):
            output, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, f"formatting {node}: {output.decode()}"
        for node in self.brokers.values():
            for directory in node.files.log_dirs:
                self._identity(node).write(RealEnv(), str(directory))

    def _format_controller(self, node: ClusterNode, words: list[str]) -> subprocess.Popen[bytes]:
        java = self._jvm.java(node.files, is_controller=True)
        command = [*java, "kafka.tools.StorageTool", *words, "-c", str(node.files.properties)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def _identity(self, node: ClusterNode) -> MetaProperties:
        return MetaProperties(self.cluster_id, node.id, _random_uuid())

    def __enter__(self) -> ClusterRig:
        try:
            return self.start()
        except AssertionError as error:
            report = self.report()
            self.close()
            raise AssertionError(f"{error}\n{report}") from None
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _stop_all(nodes: Sequence[ClusterNode]) -> None:
    for node in nodes:
        node.terminate()
    wait_until("all have ended", lambda: [node for node in nodes if node.is_running])


def _two_ports() -> Ports:
    return Ports(*held_ports(2))


def _random_uuid() -> str:
    return uuid_to_string(b"\x01" + os.urandom(15))


def _impatient(addresses: tuple[Address, ...]) -> ClientSettings:
    """For questions that are asked again and again while a condition is waited for."""
    return ClientSettings(
        addresses,
        client_id="rig",
        request_timeout_ms=5_000,
        default_api_timeout_ms=5_000,
        retry_backoff_max_ms=100,
        connection_setup_timeout_ms=1_000,
    )
