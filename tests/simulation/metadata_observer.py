"""A simulation of an observer: a model quorum that elects, commits, forgets and stops, a network that loses and delays,
and a disk that loses what was not synced. It is a function of its seed.

After each step:

- what is published is the replay of a committed prefix of the quorum's log,
- the published offset and the high watermark never fall while the node runs, nor does the epoch ever,
- the log below the high watermark is the quorum's.

At the end, when the network is whole and a leader is there, everything committed is published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.observed_image import ObservedImage
from barnabas.broker.metadata.observer import MetadataObserver, ObserverEvents, Quorum
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import RaftLogSettings
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.blocking import Done, Work
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.quorum import FetchSnapshotRequest
from barnabas.protocol.schema import Message
from tests.broker.fakes import ManualTimer
from tests.simulation.metadata_quorum import CLUSTER_ID, Controller, ModelQuorum, state_of
from tests.storage.fault_env import FaultEnv

NODE_ID = 7
LOG_DIR = "/logs"
DIRECTORY_ID = b"directory of one"
SETTINGS = RaftLogSettings(segment_bytes=600, max_batch_bytes=500, snapshot_bytes=1500, retention_bytes=2000)
STEPS = 120
LAST_ROUNDS = 400


class Jobs:
    """A BlockingRunner whose jobs are done when the simulation comes to them."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Work, Done]] = deque()

    def submit(self, work: Work, done: Done) -> None:
        self._jobs.append((work, done))

    def run(self) -> None:
        if self._jobs:
            work, done = self._jobs.popleft()
            try:
                work()
            except Exception as error:
                done(error)
            else:
                done(None)


class World:
    """The quorum, the network and the observing node."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.timer = ManualTimer()
        self.quorum = ModelQuorum(self.rng.choice((1, 3)))
        self.env = FaultEnv(seed=seed)
        self.env.mkdir(LOG_DIR)
        self.env.sync_dir("/")
        self.loss = self.rng.choice((0.0, 0.05, 0.3))
        self.epoch = 0
        self.failures: list[str] = []
        self.quorum.elect(self.rng)
        self.start()

    # -- the node --

    def start(self) -> None:
        self.life = object()
        self.jobs = Jobs()
        raft = RaftLog(self.env, LOG_DIR, SETTINGS)
        self.log = ObserverRaftLog(raft, self.env, NODE_ID, DIRECTORY_ID)
        self.published = MetadataImage.empty()
        self.followed = MetadataImage.empty()
        self.high_watermark = raft.high_watermark
        self.image = ObservedImage(
            raft,
            self.jobs,
            lambda: self.observer.leader_high_watermark,
            self.publish,
            self.failures.append,
        )
        self.observer = MetadataObserver(
            self.log,
            Quorum(CLUSTER_ID, [one.address for one in self.quorum.controllers]),
            channel_to=partial(Link, self),
            timer=self.timer,
            runner=self.jobs,
            events=ObserverEvents(
                progressed=self.image.progressed,
                replaced=self.image.replaced,
                leader_changed=lambda: None,
                failed=self.failures.append,
            ),
            choose=self.rng.choice,
        )
        self.image.progressed()
        self.observer.start()

    def crash(self) -> None:
        self.observer.stop()
        self.env.crash()
        self.start()

    def publish(self, image: MetadataImage, delta: MetadataDelta, done: Callable[[], None]) -> None:
        self.check_published(image, delta)
        self.published = image
        done()

    def maybe_snapshot(self) -> None:
        if self.published.offset >= 0:
            self.log.raft.maybe_snapshot(self.published)

    # -- the network --

    def send(self, node: NodeAddress, request: Message) -> Pending[Message | NodeClientError]:
        pending: Pending[Message | NodeClientError] = Pending()
        life, rng = self.life, self.rng

        def arrive() -> None:
            one = self.quorum.at(node)
            if life is not self.life:
                return
            if not one.is_up or rng.random() < self.loss:
                self.timer.call_later(rng.choice((0.0, 2.0)), partial(complete, NodeUnavailable("lost")))
                return
            self.timer.call_later(rng.random() * 0.05, partial(complete, self.answer(one, request)))

        def complete(result: Message | NodeClientError) -> None:
            if life is self.life:
                pending.complete(NodeUnavailable("lost") if rng.random() < self.loss else result)

        self.timer.call_later(rng.random() * 0.05, arrive)
        return pending

    def answer(self, one: Controller, request: Message) -> Message:
        if isinstance(request, FetchRequest):
            return self.quorum.fetch(one, request)
        assert isinstance(request, FetchSnapshotRequest)
        return self.quorum.fetch_snapshot(one, request)

    # -- the checks --

    def check_published(self, image: MetadataImage, delta: MetadataDelta) -> None:
        assert image.offset > self.published.offset, "the published offset does not rise"
        stated = self.observer.leader_high_watermark
        assert stated is not None, "published before a leader has stated the high watermark"
        if self.published.offset < 0:
            assert image.offset >= stated - 1, "published before it was caught up"
        assert image.offset < len(self.quorum.committed), "published beyond what is committed"
        expected, _ = replayed(MetadataImage.empty(), state_of(self.quorum.committed[: image.offset + 1]))
        assert image.topic_names == expected.topic_names, (
            "the published topics are not those of a committed prefix"
        )
        assert image.configs == expected.configs, "the published image is not that of a committed prefix"
        assert image.features == expected.features
        assert image.epoch == self.quorum.committed[image.offset].epoch
        before, after = self.published.configs, image.configs
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        assert changed <= delta.config_changes, "the delta leaves out a change"

    def check(self) -> None:
        assert not self.failures, self.failures
        raft = self.log.raft
        assert raft.high_watermark >= self.high_watermark, "the high watermark falls"
        assert raft.high_watermark <= len(self.quorum.committed), (
            "the high watermark is beyond what is committed"
        )
        self.high_watermark = raft.high_watermark
        assert self.observer.view.epoch >= self.epoch, "the epoch falls"
        self.epoch = self.observer.view.epoch
        start, end = raft.log.log_start_offset, raft.high_watermark
        for batch in raft._batches_from(start) if start < end else ():
            wanted = self.quorum.committed[batch.base_offset].epoch
            assert batch.partition_leader_epoch == wanted, (
                "the log below the high watermark is not the quorum's"
            )

    # -- the steps --

    def step(self) -> str:
        rng, quorum = self.rng, self.quorum
        actions: dict[str, tuple[int, Callable[[], object]]] = {
            "append": (20, lambda: quorum.append(rng.choice((1, 2, 5)))),
            "commit": (20, lambda: quorum.commit(rng)),
            "elect": (5, lambda: quorum.elect(rng)),
            "controller snapshot": (4, lambda: quorum.snapshot(rng)),
            "controller stops": (2, lambda: quorum.stop(rng)),
            "controllers start": (3, quorum.start_all),
            "own snapshot": (4, self.maybe_snapshot),
            "crash": (2, self.crash),
            "time": (40, lambda: self.timer.advance(rng.choice((0.0, 0.01, 0.1, 0.5, 3.0)))),
            "job": (30, self.jobs.run),
        }
        (name,) = rng.choices(list(actions), [weight for weight, _ in actions.values()])
        actions[name][1]()
        return name

    def settle(self) -> None:
        """Everything is up: all that is committed must be published."""
        self.loss = 0.0
        self.quorum.start_all()
        self.quorum.elect(self.rng)
        self.quorum.commit(self.rng)
        if len(self.quorum.controllers) > 1 and self.observer.leader is not None:
            self.quorum.take_down(self.quorum.at(self.observer.leader))
            self.quorum.elect(self.rng)
        assert self.quorum.leader is not None, "no controller has all that is committed"
        self.quorum.append(2)
        while len(self.quorum.committed) < len(self.quorum.leader.entries):
            self.quorum.commit(self.rng)  # which every controller that is up learns of
        for _ in range(LAST_ROUNDS):
            self.timer.advance(0.1)
            self.jobs.run()
            self.check()
        assert self.published.offset == len(self.quorum.committed) - 1, (
            f"published up to {self.published.offset}, committed up to {len(self.quorum.committed) - 1}"
        )


class Link:
    """A NodeChannel of the simulated network."""

    def __init__(self, world: World, node: NodeAddress) -> None:
        self._world, self._node = world, node

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        return self._world.send(self._node, request)

    def close(self) -> None: ...


def live(seed: int, steps: int = STEPS) -> None:
    """One simulation. Raises AssertionError, after printing the seed and the last steps."""
    world = World(seed)
    done: list[str] = []
    try:
        for _ in range(steps):
            done.append(world.step())
            world.check()
        done.append("settle")
        world.settle()
    except BaseException:
        print(f"seed {seed}, step {len(done)}: ... {', '.join(done[-15:])}")
        raise
