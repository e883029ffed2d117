"""Dialogues with one connection: order, limits, back-pressure, and how it ends."""

from __future__ import annotations

import errno
import logging
from functools import partial

import pytest

from barnabas.broker.network.connection import ANSWERED_FIRST
from barnabas.broker.network.in_flight import (
    MAX_IN_FLIGHT_REQUESTS,
    MAX_UNSENT_BYTES,
    MeteredAnswer,
    Response,
)
from barnabas.broker.network.request_memory import FREE_BYTES, READ_BYTES, SCARCE_READ_BYTES, RequestMemory
from barnabas.broker.network.send_queue import PIECE_BYTES
from barnabas.protocol.framing import size_prefix
from tests.broker.fakes import ManualTimer
from tests.broker.scripted import Client, FakeRecords, ScriptedHandler, SliceableRecords, framed, scripted

MIB = 1024 * 1024


@pytest.fixture
def client() -> Client:
    return Client()


# ---- order


def test_a_request_is_answered(client: Client) -> None:
    client >> "echo hello" << "hello"
    assert not client.closed


def test_an_empty_answer_is_an_answer(client: Client) -> None:
    client >> "echo"
    assert client.answers() == [b""]


def test_requests_of_one_read_are_answered_in_one_write(client: Client) -> None:
    client >> "echo one, echo two, echo three" << "one, two, three"
    assert client.transport.writes == 1


def test_answers_keep_the_order_of_the_requests(client: Client) -> None:
    client >> "echo one, wait two, echo three, wait four" << "one"
    client.completes("four")
    client << ""
    client.completes("two")
    client << "two, three, four"


@pytest.mark.parametrize("api", ["PRODUCE", "OFFSET_COMMIT"])
def test_requests_that_overlap_are_handled_while_one_of_their_kind_waits(client: Client, api: str) -> None:
    client >> f"{api} wait one" >> f"{api} echo two" << ""
    assert client.handler.handled == ["wait one", "echo two"]
    client.completes("one")
    client << "one, two"


@pytest.mark.parametrize(
    ("waiting", "following"),
    [
        ("FETCH", "LIST_OFFSETS"),
        ("FETCH", "FETCH"),
        ("FETCH", "PRODUCE"),
        ("PRODUCE", "FETCH"),
        ("PRODUCE", "OFFSET_COMMIT"),
        ("OFFSET_COMMIT", "PRODUCE"),
        ("OFFSET_COMMIT", "OFFSET_FETCH"),
        ("JOIN_GROUP", "HEARTBEAT"),
        ("END_TXN", "ADD_PARTITIONS_TO_TXN"),
    ],
)
def test_a_request_is_held_back_until_the_one_in_front_is_answered(
    client: Client, waiting: str, following: str
) -> None:
    """It could answer with a state from before the answer in front, as a fetch and a look at the log's end would."""
    client >> f"{waiting} wait one, {following} echo two, {following} echo three" << ""
    assert client.handler.handled == ["wait one"]
    client.completes("one")
    client << "one, two, three"


def test_a_request_held_back_behind_several_waits_for_all_of_them(client: Client) -> None:
    client >> "wait one, wait two, FETCH echo three, echo four" << ""
    client.completes("one")
    client << "one"
    assert client.handler.handled == ["wait one", "wait two"]
    client.completes("two")
    client << "two, three, four"


def test_a_request_that_came_to_wait_holds_the_next_one_back(client: Client) -> None:
    client >> "FETCH wait one, FETCH wait two, LIST_OFFSETS echo three" << ""
    client.completes("one")
    client << "one"
    assert client.handler.handled == ["wait one", "wait two"]
    client.completes("two")
    client << "two, three"


def test_nothing_is_read_while_a_request_is_held_back(client: Client) -> None:
    client >> "FETCH wait one" << ""
    assert client.is_read()
    client >> "LIST_OFFSETS echo two" << ""
    assert not client.is_read()
    assert client.connection.backlog == 1
    client.completes("one")
    client << "one, two"
    assert client.is_read()
    assert client.memory.used_bytes == 0


def test_a_request_without_answer_takes_no_place(client: Client) -> None:
    client >> "wait one, none, echo three" << ""
    client.completes("one")
    client << "one, three"


def test_a_pending_answer_that_is_there_already_goes_out_with_the_rest(client: Client) -> None:
    client >> "done one, done two" << "one, two"
    assert client.transport.writes == 1


def test_what_completes_in_one_turn_goes_out_in_one_write(client: Client) -> None:
    client >> "wait one, wait two" << ""
    client.handler.complete("one")
    client.handler.complete("two")
    client << "one, two"
    assert client.transport.writes == 1


def test_a_completion_never_runs_further_requests_within_itself(client: Client) -> None:
    """It happens inside another request's handler, which must not find the state changed under it."""
    client >> ", ".join(f"wait {n}" for n in range(MAX_IN_FLIGHT_REQUESTS)) >> "echo late" << ""
    client.handler.complete("0")
    assert "echo late" not in client.handler.handled
    client.settle()
    assert "echo late" in client.handler.handled


@pytest.mark.parametrize("waiting", [1, ANSWERED_FIRST, ANSWERED_FIRST + 5])
def test_those_whose_requests_another_completes_are_answered_at_once_and_before_it(
    client: Client, waiting: int
) -> None:
    """But for those who are too many."""
    others = [Client(beside=client) for _ in range(waiting)]
    for n, other in enumerate(others):
        other >> f"wait {n}" << ""
    sent: list[Client] = []
    for one in (client, *others):
        one.transport.on_send = partial(sent.append, one)
    client.transport.receive(framed(b"complete " + b" ".join(b"%d" % n for n in range(waiting))))
    client.transport.deliver()
    assert sent == [*others[:ANSWERED_FIRST], client]
    client.settle()
    assert sent == [*others[:ANSWERED_FIRST], client, *others[ANSWERED_FIRST:]]


def test_another_that_is_answered_handles_what_it_has_received_meanwhile(client: Client) -> None:
    other = Client(beside=client)
    other >> ", ".join(f"wait {n}" for n in range(MAX_IN_FLIGHT_REQUESTS)) >> "echo late" << ""
    client >> "complete 0" << "0"
    other << "0"
    assert "echo late" in client.handler.handled


def test_whose_answer_cannot_be_sent_is_closed_and_the_one_that_completed_it_is_answered(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    other = Client(beside=client)
    other >> "wait r" << ""

    def fail() -> None:
        raise ZeroDivisionError("a bug of ours")

    other.transport.on_send = fail
    client >> "complete r" << "r"
    assert other.closed
    assert not client.closed
    assert "a bug" in caplog.text


def test_a_request_may_come_in_pieces(client: Client) -> None:
    for byte in framed(b"echo slowly"):
        client.send(bytes([byte]))
    client << "slowly"


# ---- records from the disk


def test_records_follow_what_is_before_them(client: Client) -> None:
    client.handler.records["r"] = FakeRecords(5)
    client >> "records r, echo behind" << "abcrrrrr, behind"


def test_no_records_are_read_for_answers_that_cannot_be_sent_yet(client: Client) -> None:
    records = FakeRecords(5)
    client.handler.records["r"] = records
    client >> "wait one, records r" << ""
    assert records.reads == []
    client.completes("one")
    client << "one, abcrrrrr"


def test_a_large_answer_is_read_as_the_client_takes_it(client: Client) -> None:
    size = 8 * MIB
    records = SliceableRecords(size)
    client.handler.records["r"] = records
    client.transport.peer_window = 0
    client >> "records r"
    received = client.transport.read(0)
    while len(received) < size + 7:
        assert sum(records.reads) <= len(received) + 2 * PIECE_BYTES
        received += client.transport.read(100_000)
        client.timer.run_soon()
    assert received == size_prefix(size + 3) + b"abc" + b"r" * size
    assert max(records.reads) <= PIECE_BYTES


def test_many_records_of_one_answer_are_read_one_after_the_other(client: Client) -> None:
    reads: list[int] = []
    for name in "abc":
        client.handler.records[name] = FakeRecords(MIB, name.encode(), reads)
    client.transport.peer_window = 0
    client >> "records a, records b, records c"
    assert reads == [MIB]
    client.transport.peer_window = None
    client.transport.read()
    client.timer.run_soon()
    assert reads == [MIB] * 3


@pytest.mark.parametrize("failure", ["truncated", "disk"])
def test_records_that_cannot_be_read_end_the_connection(
    client: Client, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = FakeRecords(100)
    records.truncated_by = 1 if failure == "truncated" else 0
    records.error = OSError(errno.EIO, "the disk") if failure == "disk" else None
    client.handler.records["r"] = records
    client >> "records r"
    assert client.closed
    assert client.answers() == []
    assert "in the middle of a response" in caplog.text


# ---- back-pressure


def test_a_client_that_does_not_read_is_not_read(client: Client) -> None:
    client.transport.peer_window = 0
    client >> "big 100000"
    assert not client.is_read()
    client.transport.read()
    client.timer.run_soon()
    assert client.is_read()


def test_requests_behind_answers_that_nobody_reads_are_not_handled(client: Client) -> None:
    client.transport.peer_window = 0
    big = f"big {MAX_UNSENT_BYTES}"
    client >> f"{big}, {big}, {big}, echo four"
    assert client.handler.handled == [big[:20]]
    sizes: list[int] = []
    client.transport.peer_window = None
    while client.connection.backlog or not sizes:
        client.transport.read()
        sizes += [0]
        client.timer.run_soon()
        assert len(sizes) < 10
    assert len(client.handler.handled) == 4
    assert client.is_read()


def test_as_many_requests_are_in_flight_as_may_be_and_no_more_are_read(client: Client) -> None:
    names = [str(n) for n in range(MAX_IN_FLIGHT_REQUESTS)]
    client >> ", ".join(f"wait {name}" for name in names)
    assert not client.is_read()
    client.completes("1")
    assert not client.is_read()  # request 0 still holds up all others
    client.completes("0")
    assert client.is_read()
    client << "0, 1"


def test_a_flood_of_small_requests_gives_others_a_turn(client: Client) -> None:
    count = MAX_IN_FLIGHT_REQUESTS * 2 + 50
    client.transport.receive(framed(b"echo x") * count)
    assert len(client.handler.handled) == MAX_IN_FLIGHT_REQUESTS
    assert not client.is_read()
    client.timer.run_soon()
    assert len(client.answers()) == count
    assert client.is_read()


def test_waiting_answers_are_bounded(client: Client) -> None:
    client >> f"wait one, big {MAX_UNSENT_BYTES}, echo three"
    assert client.handler.handled[-1] != "echo three"
    assert not client.is_read()
    client.completes("one")
    assert [len(answer) for answer in client.answers()] == [3, MAX_UNSENT_BYTES, 5]
    assert client.is_read()


# ---- memory for requests


def test_a_small_unfinished_request_is_not_charged(client: Client) -> None:
    client.send(size_prefix(MIB) + bytes(FREE_BYTES - 4))
    assert client.memory.used_bytes == 0


def test_a_large_unfinished_request_is_charged_for_what_has_arrived(client: Client) -> None:
    client.send(size_prefix(10 * MIB) + scripted(b"echo ") + bytes(200_000))
    assert client.memory.used_bytes == 200_011
    client.send(bytes(10 * MIB - 200_007))
    assert client.memory.used_bytes == 0
    assert [len(answer) for answer in client.answers()] == [10 * MIB - 7]


def test_a_request_that_waits_is_charged_until_it_is_answered(client: Client) -> None:
    client >> "wait one"
    assert client.memory.used_bytes == len(scripted(b"wait one"))
    client.completes("one")
    assert client.memory.used_bytes == 0


def test_a_lost_connection_gives_back_what_it_held(client: Client) -> None:
    client >> "wait one, wait two"
    client.send(size_prefix(MIB) + bytes(100_000))
    client.transport.disconnect()
    assert client.memory.used_bytes == 0
    assert client.lost == [client.connection]
    client.handler.complete("two")  # nobody is there to hear it
    client.handler.complete("one")
    assert client.memory.used_bytes == 0


class Crowd:
    """Several clients over one budget."""

    def __init__(self, limit_bytes: int, size: int) -> None:
        self.memory = RequestMemory(limit_bytes)
        self.handler = ScriptedHandler()
        self.timer = ManualTimer()
        self.clients = [
            Client(self.handler, memory=self.memory, timer=self.timer, host=f"192.0.2.{n}")
            for n in range(size)
        ]


def test_when_memory_is_used_up_one_goes_on_and_the_others_wait_their_turn() -> None:
    crowd = Crowd(limit_bytes=250_000, size=4)
    request = framed(b"echo " + bytes(199_995))
    for client in crowd.clients:
        client.send(request[:100_000])
    assert [client.transport.reading for client in crowd.clients] == [True, True, True, False]
    assert crowd.memory.used_bytes < 250_000 + 100_000
    for client in crowd.clients:
        client.send(request[100_000:])
    assert [len(client.answers()) for client in crowd.clients] == [1] * 4
    assert crowd.memory.used_bytes == 0


def test_small_requests_do_not_notice_that_memory_is_used_up() -> None:
    crowd = Crowd(limit_bytes=100_000, size=3)
    large, larger, small = crowd.clients
    large.send(size_prefix(MIB) + bytes(100_000))
    larger.send((size_prefix(MIB) + bytes(100_000))[:SCARCE_READ_BYTES])
    small >> "echo still here" << "still here"
    assert crowd.memory.exhausted
    assert len(crowd.memory.window) == SCARCE_READ_BYTES
    large.transport.disconnect()
    assert len(crowd.memory.window) == READ_BYTES


def test_one_request_larger_than_all_the_memory_there_is_gets_through() -> None:
    crowd = Crowd(limit_bytes=100_000, size=1)
    crowd.clients[0].send(framed(b"echo " + bytes(MIB)))
    assert [len(answer) for answer in crowd.clients[0].answers()] == [MIB]


def test_whoever_waits_for_memory_and_leaves_is_forgotten() -> None:
    crowd = Crowd(limit_bytes=100_000, size=3)
    for client in crowd.clients:
        client.send((size_prefix(MIB) + bytes(100_000))[: len(crowd.memory.window)])
    for client in crowd.clients[1:]:
        client.send(bytes(SCARCE_READ_BYTES))
    assert crowd.memory.waiting == 2
    for client in crowd.clients:
        client.transport.disconnect()
    assert (crowd.memory.waiting, crowd.memory.used_bytes) == (0, 0)


# ---- the end


def test_bytes_that_make_no_sense_end_the_connection_behind_earlier_answers(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client >> "echo one, bad, echo three" << "one"
    assert client.closed
    assert client.handler.handled == ["echo one", "bad"]
    assert "192.0.2.7:50000: no such thing" in caplog.text


def test_an_impossible_length_ends_the_connection_behind_earlier_answers(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(framed(b"echo one") + size_prefix(-1))
    client << "one"
    assert client.closed
    assert "-1 bytes, which is negative" in caplog.text


def test_the_log_is_not_filled_by_one_bad_client(caplog: pytest.LogCaptureFixture) -> None:
    crowd = Crowd(limit_bytes=MIB, size=1)
    first = crowd.clients[0]
    first >> "bad"
    again = Client(ScriptedHandler(), timer=crowd.timer)
    again.connection._context.complaints = first.connection._context.complaints
    again.connection.info.client_host = first.connection.info.client_host
    again >> "bad"
    assert len(caplog.records) == 1


def test_a_bug_of_ours_ends_this_connection_and_is_logged_with_its_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client >> "echo one, bug, echo three" << "one"
    assert client.closed
    assert "ZeroDivisionError" in caplog.text
    assert caplog.records[0].levelno == logging.ERROR


def test_a_bug_in_a_request_that_had_to_wait_ends_the_connection_too(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client >> ", ".join(["echo x"] * MAX_IN_FLIGHT_REQUESTS + ["bug"])
    assert client.closed
    assert len(client.answers()) == MAX_IN_FLIGHT_REQUESTS
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("last", ["close", "bad", "bug"])
def test_requests_that_wait_are_answered_before_the_connection_closes(client: Client, last: str) -> None:
    """As where one request is handled at a time: an acknowledgement is not lost for what comes behind it."""
    client >> f"wait one, wait two, {last}, echo never" << ""
    assert not client.closed
    client.completes("two")
    client << ""
    client.completes("one")
    client << "one, two"
    assert client.lost == [client.connection]
    assert client.handler.handled == ["wait one", "wait two", last]
    assert client.memory.used_bytes == 0


def test_a_handler_may_close_the_connection(client: Client) -> None:
    client >> "echo one, close, echo three" << "one"
    assert client.closed
    assert client.handler.handled == ["echo one", "close"]


def test_the_client_may_leave_at_any_time(client: Client) -> None:
    client >> "wait one"
    client.transport.disconnect(ConnectionResetError())
    client.completes("one")
    assert client.lost == [client.connection]


def test_a_drained_connection_closes_when_its_requests_are_answered(client: Client) -> None:
    client >> "wait one, echo two"
    client.connection.drain()
    assert not client.is_read()
    assert not client.closed
    client.completes("one")
    client << "one, two"
    assert client.closed


def test_a_drained_connection_with_nothing_to_do_closes_at_once(client: Client) -> None:
    client.connection.drain()
    assert client.closed


def test_a_connection_that_is_made_while_the_broker_drains_closes() -> None:
    client = Client()
    client.connection._transport = None
    client.connection.drain()
    client.connection.connection_made(client.transport)
    assert client.closed


def next_is_client(client: Client) -> bool:
    return client.connection.waits_for_peer


def test_who_has_to_act_next(client: Client) -> None:
    assert next_is_client(client)
    client >> "wait one"
    assert not next_is_client(client)
    client.completes("one")
    assert next_is_client(client)
    client.transport.peer_window = 0
    client >> "big 100000"
    assert next_is_client(client)


def test_bytes_are_counted(client: Client) -> None:
    client.handler.records["r"] = FakeRecords(5)
    client >> "echo one, records r"
    assert client.probe.bytes_in == 4 + 2 + 8 + 4 + 2 + 9
    assert client.probe.bytes_out == 4 + 3 + 4 + 8


def test_a_client_that_is_gone_when_it_is_answered_is_no_news(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client >> "wait one"
    client.transport.lost = BrokenPipeError()
    client.completes("one")
    assert client.closed
    assert client.transport.closed
    assert client.lost == [client.connection]
    assert not caplog.records


def test_a_client_that_is_gone_when_there_is_room_again_is_no_news(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.transport.peer_window = 0
    client >> "big 100000"
    client.transport.lost = ConnectionResetError()
    client.transport.read(10)
    assert client.lost == [client.connection]
    assert client.memory.used_bytes == 0
    assert not caplog.records


def test_a_client_that_closes_its_end_is_sent_what_is_on_its_way(client: Client) -> None:
    client.transport.peer_window = 10
    client >> "big 1000"
    client.transport.disconnect()
    assert client.closed
    assert client.lost == []
    assert len(client.transport.read(500)) == 510
    assert len(client.transport.read(5000)) == 494
    assert client.lost == [client.connection]


def test_what_is_answered_while_the_rest_of_an_answer_waits_follows_it(client: Client) -> None:
    client.transport.peer_window = 2
    client >> "wait one, big 10" << ""
    client.completes("one")
    client.transport.peer_window = None
    client.transport.read(0)
    client.transport.read()
    assert client.is_read()
    client >> "echo two" << "two"


def test_a_large_request_is_handed_over_where_it_was_read_to(client: Client) -> None:
    frames: list[object] = []
    context = client.connection._requests
    context._handle = lambda info, frame: frames.append(frame) or [b"taken"]  # type: ignore[func-returns-value]
    request = framed(bytes(range(256)) * 1000)
    for start in range(0, len(request), 20_000):
        client.send(request[start : start + 20_000])
    assert client.answers() == [b"taken"]
    assert isinstance(frames[0], memoryview)
    assert frames[0] == request[4:]


# ---- clients that are throttled


def test_a_throttled_response_is_sent_at_once_and_nothing_is_read_until_the_time_is_over(
    client: Client,
) -> None:
    client >> "throttle 500 one" << "one"
    assert not client.is_read()
    client >> "echo two"
    client.timer.advance(0.499)
    client << ""
    client.timer.advance(0.001)
    assert client.is_read()
    client << "two"
    assert client.handler.meter.unmuted_count == 1


def test_requests_behind_a_throttled_one_wait(client: Client) -> None:
    client >> "echo one, throttle 500 two, throttle 300 three, echo four" << "one, two"
    assert client.handler.handled == ["echo one", "throttle 500 two"]
    client.timer.advance(0.5)
    client << "three"
    client.timer.advance(0.299)
    client << ""
    client.timer.advance(0.001)
    client << "four"
    assert client.is_read()


def test_a_pipeline_is_throttled_request_by_request(client: Client) -> None:
    """The escape: a hundred requests that are all handled before the first one's throttle time."""
    client.send(b"".join(framed(b"throttle 1000 %d" % number) for number in range(100)))
    for number in range(100):
        client << str(number)
        assert len(client.handler.handled) == number + 1
        client.timer.advance(1)
    assert client.is_read()


def test_a_request_without_a_response_mutes_too(client: Client) -> None:
    client >> "silence 500, echo one" << ""
    client.timer.advance(0.5)
    client << "one"


def test_requests_of_a_limited_client_do_not_overlap(client: Client) -> None:
    client >> "limited one, echo two, wait three" << ""
    assert client.handler.handled == ["limited one"]
    client.handler.complete_limited("one", mute_ms=700)
    client << "one"
    client.timer.advance(0.7)
    client << "two"
    client.completes("three")
    client << "three"


def test_a_client_becomes_limited_while_its_requests_overlap(client: Client) -> None:
    client >> "wait one, limited two, wait three" << ""
    assert client.handler.handled == ["wait one", "limited two"]
    client.handler.complete_limited("two", mute_ms=100)
    client << ""
    client >> "echo four"
    client.completes("one")
    client << "one, two"
    client.timer.advance(0.1)
    assert client.handler.handled[2:] == ["wait three"]
    client.completes("three")
    client << "three, four"


def test_sending_is_charged(client: Client) -> None:
    client >> "throttle 10 one" << "one"
    assert client.handler.meter.network_s == 0.25
    client.timer.advance(0.01)
    client >> "echo two" << "two"
    assert client.handler.meter.network_s == 0.25


def test_a_connection_that_ends_is_no_longer_muted(client: Client) -> None:
    client >> "throttle 500 one" << "one"
    client.connection.abort()
    assert client.handler.meter.unmuted_count == 1
    client.timer.advance(1)
    assert client.handler.meter.unmuted_count == 1


def test_a_connection_that_ends_before_its_mute_begins(client: Client) -> None:
    client >> "wait zero, limited one" << ""
    client.handler.complete_limited("one", mute_ms=100)
    client.connection.abort()
    assert client.handler.meter.unmuted_count == 1


def test_draining_does_not_wait_for_the_end_of_a_mute(client: Client) -> None:
    client >> "throttle 500 one, echo two" << "one"
    client.connection.drain()
    assert client.closed
    assert client.handler.handled == ["throttle 500 one"]


def test_many_mutes_share_a_timer() -> None:
    first = Client(timer=ManualTimer())
    clients = [first, *(Client(beside=first) for _ in range(50))]
    for client in clients:
        client >> "throttle 500 one" << "one"
    assert first.timer.scheduled == 1
    first.timer.advance(0.5)
    assert all(client.is_read() for client in clients)


def test_the_last_of_several_mutes_counts(client: Client) -> None:
    """Requests that overlapped before their client had a quota are throttled one after the other."""
    client >> "wait one, wait two" << ""
    for name, ms in (("one", 100), ("two", 300)):
        answer: Response = MeteredAnswer([name.encode()], client.handler.meter, ms)
        client.handler.pending.pop(name).complete(answer)
        client << name
    client >> "echo three"
    client.timer.advance(0.299)
    client << ""
    assert client.handler.meter.unmuted_count == 1
    client.timer.advance(0.001)
    client << "three"
    assert client.handler.meter.unmuted_count == 2
