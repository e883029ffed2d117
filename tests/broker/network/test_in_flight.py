"""The requests of one connection as a model sees them: every answer once, in order, whatever happens in between."""

from __future__ import annotations

import gc

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.network.in_flight import (
    MAX_IN_FLIGHT_REQUESTS,
    Answer,
    Handler,
    InFlightRequests,
    MeteredAnswer,
    Response,
)
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.pending import Pending
from barnabas.broker.request import CLOSE_CONNECTION, NO_RESPONSE, ConnectionInfo
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import Frame
from tests.broker.fakes import ManualTimer
from tests.broker.scripted import Client, FakeMeter, FakeRecords, ScriptedHandler, scripted

ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.lists(
                st.tuples(
                    st.sampled_from(["PRODUCE", "PRODUCE", "OFFSET_COMMIT", "FETCH"]),
                    st.sampled_from(["echo", "wait", "none", "records", "big"]),
                ),
                min_size=1,
                max_size=8,
            ),
        ),
        st.tuples(st.just("complete"), st.integers(0, 20)),
        st.tuples(st.just("read"), st.integers(0, 200_000)),
        st.tuples(st.just("turn"), st.none()),
    ),
    max_size=40,
)


class OrderedHandler(ScriptedHandler):
    """Fails when a request is handled while another waits that it must not overlap with."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_apis: dict[str, ApiKey] = {}

    def __call__(self, info: ConnectionInfo, frame: Frame) -> Answer:
        api = ApiKey(int.from_bytes(frame[:2], "big"))
        assert api is not ApiKey.FETCH or not self.pending
        assert all(self.waiting_apis[name] is api for name in self.pending)
        before = set(self.pending)
        answer = super().__call__(info, frame)
        self.waiting_apis.update(dict.fromkeys(set(self.pending) - before, api))
        return answer


class Model:
    """A client that knows which answers it is owed."""

    def __init__(self) -> None:
        self.client = Client(OrderedHandler())
        self.client.handler.records["r"] = FakeRecords(70_000)
        self.client.transport.peer_window = 0
        self.owed: list[bytes] = []
        self.number = 0

    def send(self, verbs: list[tuple[str, str]]) -> None:
        requests = [scripted(api.encode() + b" " + self.request(verb)) for api, verb in verbs]
        self.client.transport.receive(b"".join(len(it).to_bytes(4, "big") + it for it in requests))

    def request(self, verb: str) -> bytes:
        self.number += 1
        name = str(self.number).encode()
        request, answer = {
            "echo": (b"echo " + name, name),
            "wait": (b"wait " + name, name),
            "records": (b"records r", b"abc" + b"r" * 70_000),
            "big": (b"big 50000", bytes(50_000)),
            "none": (b"none", None),
        }[verb]
        if answer is not None:
            self.owed.append(answer)
        return request

    def complete(self, which: int) -> None:
        pending = sorted(self.client.handler.pending)
        if pending:
            self.client.handler.complete(pending[which % len(pending)])


@settings(deadline=None)
@given(ACTIONS)
def test_every_answer_comes_once_and_in_order(actions: list[tuple[str, object]]) -> None:
    model = Model()
    client = model.client
    stream = bytearray()
    for action, argument in actions:
        if action == "send":
            model.send(argument)  # type: ignore[arg-type]
        elif action == "complete":
            model.complete(argument)  # type: ignore[arg-type]
        elif action == "read":
            stream += client.transport.read(argument)  # type: ignore[arg-type]
        else:
            client.settle()
    while (
        client.handler.pending
        or client.transport.unread
        or client.connection.backlog
        or not client.connection.idle
    ):
        model.complete(0)
        stream += client.transport.read(1 << 30)
        client.settle()
    stream += client.transport.read(1 << 30)
    client.settle()
    expected = b"".join(len(answer).to_bytes(4, "big") + answer for answer in model.owed)
    assert bytes(stream) == expected
    assert client.memory.used_bytes == 0
    assert client.transport.reading


def requests(handler: Handler, memory: RequestMemory) -> InFlightRequests:
    info = ConnectionInfo(
        connection_id=1, listener_name="L", client_host="h", client_port=1, local_host="l", local_port=2
    )
    return InFlightRequests(handler, info, memory, lambda: None)


def test_the_limit_of_requests_in_flight() -> None:
    handler = ScriptedHandler()
    in_flight = requests(handler, RequestMemory(1 << 20))
    in_flight.receive([scripted(b"wait %d" % n) for n in range(MAX_IN_FLIGHT_REQUESTS + 5)])
    assert (len(handler.handled), in_flight.backlog, in_flight.saturated) == (MAX_IN_FLIGHT_REQUESTS, 5, True)
    in_flight.receive([scripted(b"echo late")])
    assert in_flight.backlog == 6
    handler.complete("0")
    assert not in_flight.saturated
    in_flight.proceed()
    assert in_flight.backlog == 5
    in_flight.abandon()
    assert in_flight.idle


def test_an_answer_that_turns_out_to_be_none_keeps_nobody_waiting() -> None:
    """A transaction's records without acknowledgement, once their coordinator has been asked."""
    pending: list[Pending[Response]] = []

    def handle(_: ConnectionInfo, frame: Frame) -> Answer:
        if frame != scripted(b"wait"):
            return [frame[2:]]
        pending.append(Pending())
        return pending[-1]

    memory = RequestMemory(1 << 20)
    in_flight = requests(handle, memory)
    in_flight.receive([scripted(request) for request in (b"wait", b"after it", b"wait", b"last")])
    assert in_flight.output == []
    pending[0].complete(NO_RESPONSE)
    assert b"".join(bytes(it) for it in in_flight.take_output()) == b"\0\0\0\x08after it"  # type: ignore[arg-type]
    assert not in_flight.closes
    pending[1].complete(CLOSE_CONNECTION)
    assert in_flight.closes


def test_what_is_charged_is_what_waits() -> None:
    memory = RequestMemory(1 << 20)
    in_flight = requests(ScriptedHandler(), memory)
    in_flight.writable = False
    in_flight.receive([scripted(b"echo one"), scripted(b"wait two")])
    assert memory.used_bytes == 20
    in_flight.writable = True
    in_flight.proceed()
    assert memory.used_bytes == 10
    in_flight.abandon()
    assert memory.used_bytes == 0


def all_in_flight() -> list[InFlightRequests]:
    """All that there are. Not by isinstance: a weak proxy of what has gone cannot be asked for its class."""
    return [it for it in gc.get_objects() if type(it) is InFlightRequests]


def test_a_lost_connection_leaves_nothing_for_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    before = all_in_flight()  # of other tests, which it keeps
    try:
        client = Client(ScriptedHandler(), timer=ManualTimer())
        client.handler.records["r"] = FakeRecords(100)
        client >> "echo one, records r, big 100000"
        client.transport.disconnect()
        client.lost.clear()
        del client
        assert len(all_in_flight()) == len(before)
    finally:
        gc.enable()


# ---- clients with quotas


def metered(answer: Response | Pending[Response], mute_ms: int = 0) -> MeteredAnswer:
    assert not isinstance(answer, MeteredAnswer)
    return MeteredAnswer(answer, FakeMeter(), mute_ms)


def test_a_throttled_response_comes_out_and_mutes() -> None:
    memory = RequestMemory(1 << 20)
    in_flight = requests(lambda _, frame: metered([bytes(frame)], mute_ms=5), memory)
    in_flight.receive([b"one", b"two"])
    assert b"".join(in_flight.take_output())[4:] == b"one"  # type: ignore[arg-type]  # no records
    assert (in_flight.muted, in_flight.saturated, in_flight.calm, in_flight.backlog) == (True, True, False, 1)
    assert in_flight.throttled is not None
    assert (in_flight.throttled.mute_ms, in_flight.meter) == (5, in_flight.throttled.meter)
    in_flight.proceed()
    in_flight.receive([b"three"])
    assert (in_flight.output, in_flight.backlog) == ([], 2)
    in_flight.muted = False
    in_flight.proceed()
    assert b"".join(in_flight.take_output())[4:] == b"two"  # type: ignore[arg-type]  # no records


def test_limited_requests_of_an_api_that_overlaps_wait_for_each_other() -> None:
    pending: list[Pending[Response]] = []

    def handle(_: ConnectionInfo, frame: Frame) -> Answer:
        pending.append(Pending())
        return metered(pending[-1])

    in_flight = requests(handle, RequestMemory(1 << 20))
    in_flight.receive([scripted(b"one"), scripted(b"two")])
    assert (len(pending), in_flight.backlog) == (1, 1)
    pending[0].complete(metered([b"done"], mute_ms=5))
    assert in_flight.muted
    assert b"".join(in_flight.take_output())[4:] == b"done"  # type: ignore[arg-type]  # no records


def test_a_connection_that_is_gone_mutes_nobody() -> None:
    answers: list[MeteredAnswer] = []

    def handle(_: ConnectionInfo, frame: Frame) -> Answer:
        answers.append(metered(NO_RESPONSE, mute_ms=5))
        return answers[-1]

    in_flight = requests(handle, RequestMemory(1 << 20))
    in_flight.receive([b"one"])
    in_flight.abandon()
    (answer,) = answers
    assert isinstance(answer.meter, FakeMeter)
    assert (answer.meter.unmuted_count, in_flight.throttled, in_flight.meter) == (1, None, None)


def test_the_last_of_several_throttled_requests_mutes() -> None:
    """They overlapped before their client had a quota, and are all charged when they are done."""
    pending: list[Pending[Response]] = []

    def handle(_: ConnectionInfo, frame: Frame) -> Answer:
        pending.append(Pending())
        return pending[-1]

    in_flight = requests(handle, RequestMemory(1 << 20))
    in_flight.receive([scripted(b"one"), scripted(b"two")])
    answers = [metered([b"done"], mute_ms=ms) for ms in (5, 9)]
    for waiting, answer in zip(pending, answers, strict=True):
        waiting.complete(answer)
    assert in_flight.muted
    assert in_flight.throttled is answers[1]
    assert [unmuted(answer) for answer in answers] == [1, 0]


def test_a_throttled_request_of_a_connection_that_is_gone_mutes_nobody() -> None:
    pending: Pending[Response] = Pending()
    in_flight = requests(lambda _, frame: metered(pending), RequestMemory(1 << 20))
    in_flight.receive([b"one"])
    in_flight.abandon()
    late = metered([b"done"], mute_ms=5)
    pending.complete(late)
    assert (unmuted(late), in_flight.throttled, in_flight.meter, in_flight.output) == (1, None, None, [])


def unmuted(answer: MeteredAnswer) -> int:
    assert isinstance(answer.meter, FakeMeter)
    return answer.meter.unmuted_count
