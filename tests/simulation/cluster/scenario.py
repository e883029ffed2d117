"""Scenario: a cluster, its clients and its troubles, all drawn from one seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage
from barnabas.storage.offsets import TopicPartition
from tests.simulation.clock import Clock, Task, sleep
from tests.simulation.cluster.broker import CONTROLLER, Run, SimulatedBroker
from tests.simulation.cluster.checks import Checks, ViolationError
from tests.simulation.cluster.clients import Consumer, Producer
from tests.simulation.cluster.controller import ModelController
from tests.simulation.cluster.member_run import MemberRun
from tests.simulation.cluster.network import Name, Network

SESSION_S: Final = 1.5
TROUBLED_S: Final = 12.0
QUIET_S: Final = 40.0
START_S: Final = 5.0

TROUBLES: Final = (
    "kill",
    "kill_leader",
    "cut_power",
    "pause",
    "pause_leader",
    "shut_down",
    "cut",
    "cut_one_way",
    "isolate_leader",
    "from_controller",
    "stall",
    "bad_network",
    "heal",
    "reassign",
    "prefer",
    "delete_records",
    "flush",
)

FENCING: Final = frozenset(
    {
        "pause",
        "pause_leader",
        "cut",
        "cut_one_way",
        "isolate_leader",
        "from_controller",
        "stall",
        "bad_network",
    }
)
"""Troubles after which a broker that is well may be fenced, or leave the ISR."""


class Scenario:
    """One run. `troubles` and the switches narrow what the seed draws.

    `second_opinion`: the rules of partitions are those of `partition`, not the broker's own.
    """

    def __init__(
        self,
        seed: int,
        troubles: tuple[str, ...] = TROUBLES,
        *,
        unclean: bool | None = None,
        elr: bool | None = None,
        seconds: float = TROUBLED_S,
        second_opinion: bool = False,
    ) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        self.clock = Clock()
        self.lines: list[str] = []
        self.steps = 0
        self._troubles = troubles
        self._seconds = seconds
        self._second_opinion = second_opinion
        self.network = Network(self.clock, Random(f"{seed}/network"))
        self.checks = Checks()
        drawn_unclean, drawn_elr = rng.random() < 0.15, rng.random() < 0.5
        self.unclean = drawn_unclean if unclean is None else unclean
        self.elr = drawn_elr if elr is None else elr
        self.controller = ModelController(
            self.clock,
            elr=self.elr,
            unclean=self.unclean,
            min_isr=rng.choice((1, 2, 2)),
            session_s=SESSION_S,
            changed=self._image_changed,
        )
        self.network.hosts[CONTROLLER] = self.controller
        self.checks.controller = self.controller
        self.brokers = self._make_brokers(rng)
        self.keys = [("t", index) for index in range(rng.choice((1, 2, 3)))]
        self.producers: list[Producer] = []
        self.failure: BaseException | None = None
        self.recovering: set[int] = set()
        """Brokers whose power was cut, until all is in sync again: until then no other may lose anything."""

    def _make_brokers(self, rng: Random) -> dict[int, SimulatedBroker]:
        fetchers, max_bytes, flush = (
            rng.choice((1, 1, 2)),
            rng.choice((300, 2000, 1 << 20)),
            rng.choice((1, 1 << 62)),
        )
        brokers = {
            node: SimulatedBroker(
                node,
                self.clock,
                self.network,
                self.controller,
                seed=rng.randrange(1 << 30),
                min_isr=self.controller.min_isr,
                fetchers=fetchers,
                partition_max_bytes=max_bytes,
                flush_messages=flush,
                make_run=Run if self._second_opinion else MemberRun,
            )
            for node in range(1, rng.choice((3, 3, 4)) + 1)
        }
        for broker in brokers.values():
            broker.peers = brokers
            self.network.hosts[broker.node_id] = broker
        self.checks.brokers = brokers
        return brokers

    def trace(self, *what: object) -> None:
        self.lines.append(f"{self.clock.now - 1_700_000_000:9.4f} " + " ".join(map(str, what)))

    def _image_changed(
        self, key: TopicPartition, before: PartitionImage | None, after: PartitionImage
    ) -> None:
        self.trace(
            f"controller: {key[0]}-{key[1]} leader {after.leader} epoch {after.leader_epoch}/{after.partition_epoch} "
            f"ISR {after.isr} ELR {after.elr} of {after.replicas}"
        )
        self.checks.image_changed(key, before, after)

    # ---- the run

    def run(self) -> None:
        """Raises AssertionError (ViolationError among them) where something is wrong."""
        self.begin()
        Task(self.clock, self._trouble())
        self.spend(self._seconds)
        self.finish()

    def begin(self) -> None:
        """Starts the brokers, creates the partitions, and lets the clients begin."""
        for broker in self.brokers.values():
            broker.start()
        self._expire_sessions()
        self._until(lambda: all(self.controller.is_active(node) for node in self.brokers), START_S, "start")
        for key in self.keys:
            replicas = self.rng.sample(sorted(self.brokers), 3)
            self.controller.create(key, replicas)
        self._start_clients()

    def finish(self) -> None:
        """Ends all troubles, waits until everything is replicated, and checks what there is."""
        self._recover()
        self._until(lambda: all(producer.is_idle for producer in self.producers), QUIET_S, "producers")
        self._until(lambda: self.checks.is_quiet() is None, QUIET_S, "replicas")
        self.checks.failures()
        sent: dict[TopicPartition, dict[str, list[bytes]]] = {}
        for producer in self.producers:
            if producer.acks == -1:
                for key, values in producer.sent.items():
                    sent.setdefault(key, {})[producer.name] = values
        self.checks.finish(sent)

    def _expire_sessions(self) -> None:
        self.controller.expire_sessions()
        self.clock.call_later(0.1, self._expire_sessions)

    def _start_clients(self) -> None:
        ids = count(1000)
        for number in range(self.rng.choice((1, 2, 3))):
            producer = Producer(f"p{number}", *self._client(number))
            producer.acks = self.rng.choice((-1, -1, 1))
            producer.begin(self.keys, lambda: next(ids))
            self.producers.append(producer)
            Task(self.clock, producer.run())
        for number, key in enumerate(self.keys):
            consumer = Consumer(f"c{number}", *self._client(100 + number))
            Task(self.clock, consumer.run(key, key[0].encode().ljust(16, b"-")))

    def _client(
        self, number: int
    ) -> tuple[Clock, Network, ModelController, dict[int, SimulatedBroker], Checks, Random]:
        rng = Random(f"{self.seed}/client {number}")
        return self.clock, self.network, self.controller, self.brokers, self.checks, rng

    def _step(self) -> None:
        call = self.clock.next()
        assert call is not None
        call.callback()
        self.steps += 1
        self.checks.step()
        if self.steps % 64 == 0:
            self.checks.failures()

    def spend(self, seconds: float) -> None:
        """Lets time pass."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self._step()

    def _until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        end = self.clock.now + seconds
        while not holds():
            if self.clock.now >= end:
                raise ViolationError(f"{what}: not done after {seconds} s: {self.checks.is_quiet()}")
            for _ in range(20):
                self._step()

    # ---- troubles

    async def _trouble(self) -> None:
        end = self.clock.now + self._seconds
        await sleep(self.clock, 0.5)
        while self.clock.now < end:
            name = self.rng.choice(self._troubles)
            self._do(name)
            await sleep(self.clock, self.rng.choice((0.02, 0.2, 0.5, 1.0, 2.0)))

    def _do(self, name: str) -> None:
        if name in FENCING and self._is_recovering():
            return  # the one that lost records could become the last in the ISR, and lead: in Kafka, too
        getattr(self, f"_{name}")()

    def _is_recovering(self) -> bool:
        """Whether a broker whose power was cut has not caught up yet."""
        if self.recovering and self.checks.is_quiet() is None:
            self.recovering.clear()
        return bool(self.recovering)

    def _recover(self) -> None:
        """Ends all troubles."""
        self.trace("all troubles end")
        self.network.heal()
        for broker in self.brokers.values():
            if broker.run is None:
                broker.start()
            else:
                broker.run.process.paused_until = 0.0
        for producer in self.producers:
            producer.stopping = True

    def _leader_of_some(self) -> int | None:
        leader = self.controller.partitions[self.rng.choice(self.keys)].leader
        return None if leader == NO_LEADER else leader

    def _some_broker(self) -> int:
        return self.rng.choice(sorted(self.brokers))

    def _may_lose(self, node: int) -> bool:
        """Whether a broker may go: while one recovers from a power cut, which may have taken acknowledged records
        that only one other replica had, nobody else may."""
        return not self._is_recovering() or node in self.recovering

    def _down(self, node: int | None) -> None:
        if node is None or self.brokers[node].run is None or not self._may_lose(node):
            return
        self.trace("kill", node)
        self.brokers[node].kill()
        self._restart_later(node)

    def _restart_later(self, node: int) -> None:
        def restart() -> None:
            if self.brokers[node].run is None:
                self.trace("start", node)
                self.brokers[node].start()

        self.clock.call_later(self.rng.choice((0.05, 0.5, 2.0, 5.0)), restart)

    def _kill(self) -> None:
        self._down(self._some_broker())

    def _kill_leader(self) -> None:
        self._down(self._leader_of_some())

    def _cut_power(self) -> None:
        """Only where every replica is in sync, acks=all means more than one, and no broker is about to be fenced."""
        node = self._some_broker()
        if (
            not self.network.is_whole
            or self.recovering
            or self.controller.min_isr < 2
            or self.controller.elr
            or any(self._may_be_fenced_soon(broker) for broker in self.brokers.values())
            or any(set(one.isr) != set(one.replicas) for one in self.controller.partitions.values())
        ):
            return
        self.trace("power cut", node)
        self.recovering.add(node)
        self.brokers[node].cut_power()
        self._restart_later(node)

    def _may_be_fenced_soon(self, broker: SimulatedBroker) -> bool:
        """Whether a broker may leave the ISRs without another trouble: it is away or about to go, or the controller has
        yet to hear that its process is another one."""
        run = broker.run
        if run is None or run.wants_shutdown or broker.is_paused:
            return True
        known = self.controller.brokers.get(broker.node_id)
        return (
            known is None
            or known.epoch != run.epoch
            or not self.controller.is_active(broker.node_id)
            or known.seen + SESSION_S / 2 < self.clock.now
        )

    def _pause(self, node: int | None = None) -> None:
        chosen = self._some_broker() if node is None else node
        seconds = self.rng.choice((0.1, 0.7, 2.5, 4.0))
        self.trace("pause", chosen, seconds)
        self.brokers[chosen].pause(seconds)

    def _pause_leader(self) -> None:
        node = self._leader_of_some()
        if node is not None:
            self._pause(node)

    def _shut_down(self) -> None:
        node = self._some_broker()
        if self.brokers[node].run is None or not self._may_lose(node):
            return
        self.trace("shut down", node)
        self.brokers[node].begin_shutdown()

        def again() -> None:
            if self.brokers[node].run is None:
                self.trace("start", node)
                self.brokers[node].start()
            else:
                self.clock.call_later(0.5, again)

        self.clock.call_later(1.0, again)

    def _cut(self) -> None:
        one, other = self.rng.sample(sorted(self.brokers), 2)
        self.trace("cut", one, other)
        self.network.cut |= {(one, other), (other, one)}

    def _two_hosts(self) -> tuple[Name, Name]:
        hosts: list[Name] = [*sorted(self.brokers), CONTROLLER]
        one, other = self.rng.sample(hosts, 2)
        return one, other

    def _cut_one_way(self) -> None:
        one, other = self._two_hosts()
        self.trace("cut", one, "->", other)
        self.network.cut.add((one, other))

    def _isolate_leader(self) -> None:
        node = self._leader_of_some()
        if node is None:
            return
        self.trace("isolate", node, "from brokers")
        for other in self.brokers:
            if other != node:
                self.network.cut |= {(node, other), (other, node)}

    def _from_controller(self) -> None:
        node = self._leader_of_some()
        if node is not None:
            self.trace("cut", node, "from the controller")
            self.network.cut |= {(node, CONTROLLER), (CONTROLLER, node)}

    def _stall(self) -> None:
        one, other = self._two_hosts()
        self.trace("stall", one, "->", other)
        self.network.stall(one, other)

    def _bad_network(self) -> None:
        self.network.loss = self.rng.choice((0.0, 0.02, 0.1))
        self.network.slow = self.rng.choice((0.0, 0.05, 0.3))

    def _heal(self) -> None:
        self.trace("heal")
        self.network.heal()

    def _reassign(self) -> None:
        key = self.rng.choice(self.keys)
        partition = self.controller.partitions[key]
        if partition.adding_replicas or partition.removing_replicas:
            return
        target = self.rng.sample(sorted(self.brokers), 3)
        self.trace("reassign", key, target)
        self.controller.reassign(key, target)

    def _prefer(self) -> None:
        self.controller.prefer(self.rng.choice(self.keys))

    def _delete_records(self) -> None:
        key = self.rng.choice(self.keys)
        leader = self.controller.partitions[key].leader
        run = self.brokers[leader].run if leader >= 0 else None
        if run is None or key not in run.partitions or run.partitions[key].is_truncating:
            return
        partition = run.partitions[key]
        log = partition.log
        offset = self.rng.randint(log.log_start_offset, max(log.log_start_offset, log.high_watermark))
        start = run.delete_records(key, offset)
        if start is not None:
            self.trace("delete records of", key, "before", start)
            self.checks.deleted(key, start)

    def _flush(self) -> None:
        run = self.brokers[self._some_broker()].run
        for partition in run.partitions.values() if run is not None else ():
            if not partition.is_truncating:
                partition.log.flush()
