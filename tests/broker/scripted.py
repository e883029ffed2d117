"""A handler whose requests say what it does, and a client's end of a connection, for dialogues without sockets.

client >> "echo one"        the client sends a request
client << "one"             and has received this answer, and no more

A request begins with an API key as all do: Produce, unless the API's name is in front ("FETCH wait one"). The handler
ignores it, but the order of responses on a connection depends on it.
"""

from __future__ import annotations

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection import Connection, ConnectionContext
from barnabas.broker.network.in_flight import Answer, MeteredAnswer, Response
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.pending import Pending
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.request import CLOSE_CONNECTION, NO_RESPONSE, ConnectionInfo
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import Frame, Framer, size_prefix
from barnabas.protocol.wire import RecordsChunk
from tests.broker.fakes import FakeTransport, ManualTimer


class FakeRecords:
    """Fake records on an imaginary disk: `size` bytes of one letter. `reads` are the sizes that were read."""

    def __init__(self, size: int, letter: bytes = b"r", reads: list[int] | None = None) -> None:
        self.size = size
        self.letter = letter
        self.reads: list[int] = [] if reads is None else reads
        self.truncated_by = 0
        self.error: OSError | None = None

    def read(self) -> bytes:
        if self.error is not None:
            raise self.error
        self.reads.append(self.size)
        return self.letter * (self.size - self.truncated_by)


class SliceableRecords(FakeRecords):
    """FakeRecords that can be read in parts."""

    def slice(self, position: int, size: int) -> RecordsChunk:
        assert 0 <= position <= position + size <= self.size
        return SliceableRecords(size, self.letter, self.reads)


class FakeMeter:
    """The meter of all requests of a handler: its clock is what sending takes, `unmuted_count` the mutes that ended."""

    def __init__(self) -> None:
        self.network_s = 0.0
        self.unmuted_count = 0
        self._now = 0.0

    def now(self) -> float:
        self._now += 0.25
        return self._now

    def used_network(self, seconds: float) -> None:
        self.network_s += seconds

    def unmuted(self) -> None:
        self.unmuted_count += 1


class ScriptedHandler:
    """Does what the request says.

    "echo X"; "wait X", until `pending[X]` completes; "done X", a complete Pending; "none"; "close"; "bad";
    "bug"; "big N", a response of N bytes; "records NAME", the contents of `records[NAME]`, behind three bytes;
    "complete X Y", which completes the requests that wait for X and for Y, of any connection.

    Of a client that has quotas, with `meter` for all of its requests: "throttle MS X", after which the connection is
    muted for so many milliseconds; "silence MS", without a response; "limited X", until `limited[X]` completes.
    """

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.pending: dict[str, Pending[Response]] = {}
        self.limited: dict[str, Pending[Response]] = {}
        self.records: dict[str, RecordsChunk] = {}
        self.meter = FakeMeter()

    def __call__(self, info: ConnectionInfo, frame: Frame) -> Answer:
        frame = bytes(frame[2:])
        verb, _, rest = frame.partition(b" ")
        self.handled.append(frame[:20].decode())
        match verb:
            case b"echo":
                return [rest[:1], memoryview(rest[1:])]
            case b"wait":
                pending: Pending[Response] = Pending()
                self.pending[rest[:20].decode()] = pending
                return pending
            case b"done":
                done: Pending[Response] = Pending()
                done.complete([rest])
                return done
            case b"throttle" | b"silence" | b"limited":
                return self._metered(verb, rest)
            case b"none":
                return NO_RESPONSE
            case b"close":
                return CLOSE_CONNECTION
            case b"big":
                return [bytes(int(rest))]
            case b"records":
                return [b"abc", self.records[rest.decode()]]
            case b"complete":
                for name in rest.split():
                    self.complete(name.decode())
                return [rest]
            case b"bug":
                raise ZeroDivisionError("a bug of ours")
            case _:
                raise ProtocolError("no such thing")

    def _metered(self, verb: bytes, rest: bytes) -> MeteredAnswer:
        if verb == b"limited":
            limited: Pending[Response] = Pending()
            self.limited[rest.decode()] = limited
            return MeteredAnswer(limited, self.meter)
        ms, _, text = rest.partition(b" ")
        return MeteredAnswer([text] if verb == b"throttle" else NO_RESPONSE, self.meter, int(ms))

    def complete(self, name: str) -> None:
        self.pending.pop(name).complete([name.encode()])

    def complete_limited(self, name: str, mute_ms: int = 0) -> None:
        """Completes the request "limited NAME"; the connection is muted then."""
        self.limited.pop(name).complete(MeteredAnswer([name.encode()], self.meter, mute_ms))


class Client:
    """The client's end of one Connection; `beside` is a client of the same listener."""

    def __init__(
        self,
        handler: ScriptedHandler | None = None,
        *,
        memory: RequestMemory | None = None,
        timer: ManualTimer | None = None,
        max_request_bytes: int = 1 << 24,
        host: str = "192.0.2.7",
        beside: Client | None = None,
    ) -> None:
        self.handler: ScriptedHandler = beside.handler if beside else handler or ScriptedHandler()
        self.timer: ManualTimer = beside.timer if beside else timer or ManualTimer()
        self.memory = memory or RequestMemory(1 << 30)
        self.probe = ListenerProbe("PLAINTEXT")
        self.lost: list[Connection] = []
        self.context: ConnectionContext = (
            beside.context
            if beside
            else ConnectionContext(
                handle=self.handler,
                memory=self.memory,
                max_request_bytes=max_request_bytes,
                probe=self.probe,
                complaints=RateLimit(now=self.timer.time),
                call_soon=self.timer.call_soon,
                closed=self.lost.append,
                mutes=DeadlineQueue(self.timer),
            )
        )
        info = ConnectionInfo(
            connection_id=1,
            listener_name="PLAINTEXT",
            client_host=host,
            client_port=50_000,
            local_host="192.0.2.1",
            local_port=9092,
        )
        self.connection = Connection(self.context, info)
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)
        self._answers = Framer(1 << 30)

    def send(self, data: bytes) -> None:
        """Sends bytes, and lets the broker process them as far as it can."""
        self.transport.receive(data)
        self.settle()

    def settle(self) -> None:
        """Lets the event loop turn until nothing more happens."""
        self.timer.run_soon()
        while self.transport.deliver():
            self.timer.run_soon()

    def __rshift__(self, requests: str) -> Client:
        """Sends requests, separated by commas, in one write."""
        self.send(b"".join(framed(request.strip().encode()) for request in requests.split(",")))
        return self

    def __lshift__(self, answers: str) -> Client:
        """Asserts that exactly these responses, separated by commas, have arrived since the last call; "" for none."""
        expected = [answer.strip() for answer in answers.split(",")] if answers else []
        assert [answer.decode() for answer in self.answers()] == expected
        return self

    def answers(self) -> list[bytes]:
        """The responses received since the last call."""
        self.settle()
        received = bytes(self.transport.sent)
        self.transport.sent.clear()
        frames: list[Frame] = []
        self._answers.feed(memoryview(received), frames)
        return [bytes(frame) for frame in frames]

    def completes(self, name: str) -> None:
        """Completes the request "wait NAME"."""
        self.handler.complete(name)
        self.settle()

    def is_read(self) -> bool:
        """Whether the broker reads what this client sends."""
        return self.transport.reading

    @property
    def closed(self) -> bool:
        """Whether the broker has closed the connection, even if last responses are still being sent."""
        return self.connection.closing


def framed(request: bytes) -> bytes:
    payload = scripted(request)
    return size_prefix(len(payload)) + payload


def scripted(request: bytes) -> bytes:
    """A request as received, without its size: the API key replaces its name."""
    name, _, rest = request.partition(b" ")
    if name.isupper():
        return ApiKey[name.decode()].to_bytes(2, "big") + rest
    return ApiKey.PRODUCE.to_bytes(2, "big") + request
