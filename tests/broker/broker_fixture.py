"""A whole broker without sockets, with a manual clock, and clients that exchange bytes with it.

client >> Request(...)      the client sends a request, encoded in its version
client << Response(...)     and receives this response; Like(...) compares only the fields that it names
client << WAITS             or has no response yet
client >> Wait(0.5)         half a second passes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Never, Protocol
from uuid import UUID

from barnabas.broker.metadata.image import MetadataDelta
from barnabas.broker.network.in_flight import MeteredAnswer, Response
from barnabas.broker.pending import Pending
from barnabas.broker.probes import BrokerTopicProbe, RequestProbe
from barnabas.broker.request import (
    ANONYMOUS,
    CLOSE_CONNECTION,
    NO_RESPONSE,
    ConnectionInfo,
    KafkaPrincipal,
    NoResponse,
)
from barnabas.broker.startup.assembly import BrokerComponents, Dependencies
from barnabas.broker.startup.control import OwnControl
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey, request_header_version, response_header_version, response_type
from barnabas.protocol.codec import decode, encode, join_chunks
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Chunk, Uuid
from barnabas.storage.env import Env
from barnabas.storage.worker_messages import Job
from tests.broker.fakes import KnownHosts, ManualTimer
from tests.broker.logs import ManualEnv
from tests.support.difference import Like, differences

NODE_ID = 1
HOSTS = frozenset({"localhost"})
"""The names that the broker's resolver knows."""

CLIENT_HOST, DIALLED_HOST, DIALLED_PORT = "192.0.2.7", "192.0.2.1", 9092


class Waits:
    """No response yet."""


class Silence:
    """No response at all, and none expected."""


class Closed:
    """The connection closes."""


class Wait:
    """Time that passes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


WAITS, SILENCE, CLOSED = Waits(), Silence(), Closed()


class NoWorkers:
    """Workers of a broker whose cleaner is not started."""

    def start(self, job: Job, on_progress: object, on_done: object) -> Never:
        raise AssertionError(f"{job} has no worker")

    async def close(self) -> None:
        pass


class TurnedEnv(Env, Protocol):
    """A file system whose time of day, `ms`, the test sets."""

    ms: int


class InProcessBroker:
    """A broker over `log_dir`. `settings` are broker keys; `runner` does what blocks (at once by default).

    `env` is its file system (the operating system's by default), `timer` its clock. Ids of topics
    and members are numbers from `first_id` on. Requests are timed with `request_clock`, by default that of `timer`.
    """

    def __init__(
        self,
        log_dir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        runner: BlockingRunner | None = None,
        env: TurnedEnv | None = None,
        timer: ManualTimer | None = None,
        first_id: int = 1,
        request_clock: Callable[[], float] | None = None,
    ) -> None:
        overrides = {"log.dirs": str(log_dir), "node.id": str(NODE_ID), **(settings or {})}
        self.config = BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in overrides.items()])
        self.env: TurnedEnv = env or ManualEnv()
        self.timer = timer or ManualTimer()
        self._request_clock = request_clock or self.timer.time
        self.runner = runner or InlineRunner()
        self.requests = RequestProbe()
        self.topics = BrokerTopicProbe()
        self.failed_dirs: list[str] = []
        self.deltas: list[MetadataDelta] = []
        self.storage = NodeStorage(self.config, self.env)
        self.log_manager = self.storage.log_manager
        control = OwnControl(self.config, self.storage, self.runner)
        self.components = BrokerComponents(self.config, self.storage, control, self._dependencies(first_id))
        for _ in self.components.begin():
            pass
        self.components.publishers.add(lambda _, delta: self.deltas.append(delta))
        self.broker = self.components.broker
        self.apis = self.components.apis
        self.controller = control.controller
        self.replica_manager = self.components.replica_manager
        self.replica_manager.verify_transactions(
            False
        )  # producers may be unknown to the transaction coordinator
        self.coordinators = self.components.coordinators
        self.client_metrics = self.components.client_metrics
        self.log_dirs = self.components.log_dirs
        self.cordoned_dirs = control.cordoned_dirs
        self.dynamic_config = self.components.dynamic_config
        self.directory_assignment = control.directory_assignment
        self.components.moves.start()
        self.connection_ids = count(1)

    def _dependencies(self, first_id: int) -> Dependencies:
        topic_ids, client_ids, uuids = count(first_id), count(first_id), count(first_id)
        session_ids = count(1)
        return Dependencies(
            env=self.env,
            timer=self.timer,
            runner=self.runner,
            copying=self.runner,
            loading=self.runner,
            workers=NoWorkers(),
            host_names=KnownHosts(HOSTS),
            topic_probe=self.topics,
            request_probe=self.requests,
            log_dir_failed=self.failed_dirs.append,
            new_fetch_session_id=lambda: next(session_ids),
            new_topic_id=lambda: next(topic_ids).to_bytes(16, "big"),
            new_client_instance_id=lambda: b"client%010d" % next(client_ids),
            new_member_uuid=lambda: UUID(int=next(uuids)),
            request_clock=self._request_clock,
        )

    def client(
        self, version: int, client_id: str | None = "test", *, principal: KafkaPrincipal = ANONYMOUS
    ) -> Client:
        """A new connection that speaks `version` of every API."""
        return Client(self, version, client_id, principal)

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Uuid:
        """Creates a topic, with settings whose dots are written as underscores; returns its id."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        answer = Like(topics=[Like(name=name, error_code=0)])
        assert self.client(version=7) >> CreateTopicsRequest(topics=[topic]) << answer
        return self.broker.image.topics[name].topic_id

    def stop(self, close_threads: Callable[[], None] = lambda: None) -> None:
        """A clean stop, in the order of Server.stop. `close_threads` ends the runner's work, where that is pending."""
        self.coordinators.stop()
        close_threads()
        self.storage.close()

    def kill(self) -> None:
        """An unclean stop: only what was written is on the disk."""
        self.log_manager.abandon()
        self.storage.store.raft.close()


class Client:
    """One connection, with one request in flight at a time. True, so that a dialogue can be asserted.

    `muted_ms` is for how long a connection would not be read after the last answer, None if the client has no quotas.
    """

    def __init__(
        self,
        broker: InProcessBroker,
        version: int,
        client_id: str | None,
        principal: KafkaPrincipal = ANONYMOUS,
    ) -> None:
        self.version = version
        self.client_id = client_id
        self.info = ConnectionInfo(
            connection_id=next(broker.connection_ids),
            listener_name="PLAINTEXT",
            client_host=CLIENT_HOST,
            client_port=50_000,
            local_host=DIALLED_HOST,
            local_port=DIALLED_PORT,
            principal=principal,
        )
        self.muted_ms: int | None = None
        self._broker = broker
        self._correlation_id = 0
        self._key = ApiKey.PRODUCE
        self._answers: list[object] = []

    def __rshift__(self, said: Message | Wait | bytes) -> Client:
        if isinstance(said, Wait):
            self._broker.env.ms += int(said.seconds * 1000)
            self._broker.timer.advance(said.seconds)
            return self
        assert not self._answers, f"the answer to the last request was not looked at: {self._answers}"
        self._say(self._frame(said) if isinstance(said, Message) else said)
        return self

    def __lshift__(self, expected: object) -> Client:
        if isinstance(expected, Waits):
            assert not self._answers, f"it was answered: {self._answers}"
            return self
        assert self._answers, "there is no answer yet"
        answer = self._answers.pop()
        if isinstance(expected, Silence | Closed):
            assert answer is expected, answer
        else:
            lines = list(differences(expected, answer, type(answer).__name__))
            assert not lines, "\n".join(lines)
        return self

    def ask(self, request: Message) -> Message:
        """Returns the response itself, for what a dialogue cannot express."""
        answer = (self >> request)._answers.pop()
        assert isinstance(answer, Message), answer
        return answer

    def _frame(self, request: Message) -> bytes:
        assert request.api_key is not None
        self._key = ApiKey(request.api_key)
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=self.version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        head = encode(header, request_header_version(self._key, self.version))
        return head + encode(request, self.version)

    def _say(self, frame: bytes) -> None:
        try:
            apis = self._broker.apis
            ask = apis.answer if self.info.principal is None else apis.handle  # before a login and after it
            answer = ask(self.info, frame)
        except ProtocolError:
            self._answers.append(CLOSED)
            return
        self.muted_ms = None
        if isinstance(answer, MeteredAnswer):
            self.muted_ms = answer.mute_ms
            answer = answer.answer
        if isinstance(answer, Pending):
            answer.add_done_callback(self._hear(self._key, self._correlation_id))
        else:
            self._hear(self._key, self._correlation_id)(answer)
        self._broker.timer.run_soon()  # the pass of the loop ends here

    def _hear(self, key: ApiKey, correlation_id: int) -> Callable[[Response], None]:
        """Returns a function that decodes the response on arrival: its files may be deleted before a comparison."""

        def heard(response: Response) -> None:
            chunks: list[Chunk] | NoResponse
            if isinstance(response, MeteredAnswer):
                self.muted_ms = response.mute_ms
                assert not isinstance(response.answer, Pending)
                chunks = response.answer
            else:
                chunks = response
            if isinstance(chunks, NoResponse):
                self._answers.append({NO_RESPONSE: SILENCE, CLOSE_CONNECTION: CLOSED}[chunks])
                return
            data = join_chunks(chunks)
            header_version = response_header_version(key, self.version)
            size = len(encode(ResponseHeader(), header_version))
            header = decode(ResponseHeader, header_version, data[:size])
            assert header.correlation_id == correlation_id
            self._answers.append(decode(response_type(key), self.version, data[size:]))

        return heard
