"""Connections before their login: what is read, what is answered when, and how each ends."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.network.authentication import FREE_BYTES, KEPT_TIMES, READ_BYTES
from barnabas.broker.network.authentication_memory import LIMIT_BYTES
from barnabas.broker.network.failure_log import INTERVAL_S
from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.sasl.listener import SaslListener
from barnabas.config.catalogue.sasl import SASL_SERVER_MAX_RECEIVE_SIZE
from barnabas.protocol.framing import size_prefix
from barnabas.security.oauthbearer import OAUTHBEARER
from tests.broker.network.logins import DELAY_S, TIMEOUT_S, LoginClient, LoginHarness
from tests.broker.security.sasl.logins import MAX_RECEIVE_BYTES
from tests.broker.security.sasl.test_oauthbearer import KEY, NOW_MS, message, signed
from tests.support.sasl import plain_token


@pytest.fixture
def harness() -> LoginHarness:
    return LoginHarness()


@pytest.fixture
def client(harness: LoginHarness) -> LoginClient:
    return harness.client()


# ---- logins


def test_a_client_logs_in_and_its_requests_are_handled(harness: LoginHarness, client: LoginClient) -> None:
    client.versions()
    client.handshake()
    assert client.principal is None
    client.token(plain_token("alice", "pencil"))
    assert client.principal == KafkaPrincipal("alice")
    assert len(client.frames()) == 3
    client >> "echo one, echo two" << "one, two"
    assert len(harness.authentications) == 0
    probe = harness.probe
    assert (probe.successful_authentications, probe.failed_authentications) == (1, 0)
    assert probe.successful_authentications_no_reauth == 0


def test_a_client_of_the_first_version_cannot_renew_its_session(
    harness: LoginHarness, client: LoginClient
) -> None:
    client.handshake()
    client.token(plain_token("alice", "pencil"), version=0)
    assert harness.probe.successful_authentications_no_reauth == 1


def test_bytes_may_come_one_by_one(client: LoginClient) -> None:
    sent = client.outbox = []
    client.log_in()
    client.outbox = None
    for byte in b"".join(sent):
        client.send(bytes([byte]))
    assert client.principal == KafkaPrincipal("alice")
    assert len(client.frames()) == 2


def test_frames_that_come_together_are_taken_one_after_the_other(client: LoginClient) -> None:
    sent = client.outbox = []
    client.versions()
    client.log_in()
    client >> "echo one"
    client.outbox = None
    client.send(b"".join(sent))
    *_, last = client.frames()
    assert last == b"one"
    assert client.harness.handler.handled == ["echo one"]


def test_nothing_is_read_beyond_a_frame_before_it_is_answered(client: LoginClient) -> None:
    client.handshake()
    client.token(plain_token("alice", "wrong"))
    client.send(b"whatever comes behind")
    assert bytes(client.transport.unread) == b"whatever comes behind"
    assert client.harness.memory.used_bytes == 0


def test_a_large_token_comes_in_several_reads(client: LoginClient) -> None:
    client.handshake("SCRIPTED")
    client.frames()
    client.token(b"more " + bytes(9000))
    assert len(client.frames()) == 1


# ---- failures


def test_a_failure_is_answered_and_closed_after_the_delay(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake()
    client.frames()
    client.token(plain_token("alice", "wrong"))
    assert client.frames() == []
    assert not client.is_read()
    harness.timer.advance(DELAY_S - 0.01)
    assert not client.is_closed()
    harness.timer.advance(0.02)
    (answer,) = client.frames()
    assert b"Authentication failed: Invalid username or password" in answer
    assert client.is_closed()
    assert harness.closed == [client.connection]
    assert harness.probe.failed_authentications == 1
    assert len(harness.authentications) == 0


def test_without_a_delay_a_failure_is_answered_at_once() -> None:
    client = LoginHarness(delay_ms=0).client()
    client.log_in("alice", "wrong")
    assert len(client.frames()) == 2
    assert client.is_closed()


def test_a_failure_may_have_no_answer(harness: LoginHarness, client: LoginClient) -> None:
    client.send(size_prefix(-1))
    assert not client.is_closed()
    harness.timer.advance(DELAY_S)
    assert client.frames() == []
    assert client.is_closed()


def test_a_frame_that_claims_too_much_fails_with_its_size(harness: LoginHarness, client: LoginClient) -> None:
    client.send(size_prefix(MAX_RECEIVE_BYTES + 1) + b"x")
    assert bytes(client.transport.unread) == b"x"
    assert harness.authentications.memory.used_bytes == 0
    harness.timer.advance(DELAY_S)
    assert client.is_closed()


def test_no_request_at_all_is_closed_at_once(client: LoginClient, caplog: pytest.LogCaptureFixture) -> None:
    client.send(size_prefix(18) + b"GET / HTTP/1.1\r\n\r\n")
    assert client.is_closed()
    assert "its first request is neither ApiVersions nor SaslHandshake" in caplog.text
    assert client.harness.probe.failed_authentications == 0


def test_an_answer_that_does_not_fit_is_not_waited_for(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake()
    client.frames()
    client.transport.peer_window = 3
    client.token(plain_token("alice", "wrong"))
    harness.timer.advance(DELAY_S)
    assert client.is_closed()
    assert len(client.transport.sent) == 3


def test_a_client_that_leaves_meanwhile_is_forgotten(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake()
    client.token(plain_token("alice", "wrong"))
    client.connection.abort()
    harness.timer.advance(DELAY_S)
    assert harness.closed == [client.connection]


def test_a_client_that_hangs_up_is_gone(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake()
    client.transport.disconnect()
    assert harness.closed == [client.connection]
    broken = harness.client()
    broken.transport.disconnect(ConnectionResetError())
    assert harness.closed == [client.connection, broken.connection]


def test_a_client_that_hangs_up_in_the_middle_of_a_frame_is_gone(
    harness: LoginHarness, client: LoginClient
) -> None:
    client.send(size_prefix(100) + b"x")
    client.transport.disconnect()
    assert harness.closed == [client.connection]
    assert harness.authentications.memory.used_bytes == 0


def test_a_client_that_leaves_after_its_login_leaves_nothing_behind(
    harness: LoginHarness, client: LoginClient
) -> None:
    client.log_in()
    session = client.info.session
    client.transport.disconnect()
    assert harness.closed == [client.connection]
    session.close()  # refers to nothing any more


def test_a_client_that_is_gone_when_it_is_answered(harness: LoginHarness, client: LoginClient) -> None:
    def lose() -> None:
        raise ConnectionResetError

    client.transport.on_send = lose
    client.handshake()
    assert client.is_closed()
    failing = harness.client()
    failing.handshake()
    failing.token(plain_token("alice", "wrong"))
    failing.transport.on_send = lose
    harness.timer.advance(DELAY_S)
    assert failing.is_closed()


def test_a_login_is_logged_where_that_is_asked_for(
    client: LoginClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", "barnabas.security"):
        client.log_in()
    assert "192.0.2.7:50000 is User:alice" in caplog.text


def test_a_bug_closes_the_connection(client: LoginClient, caplog: pytest.LogCaptureFixture) -> None:
    client.handshake("SCRIPTED")
    client.token(b"bug")
    assert client.is_closed()
    assert "a bug: closing the connection of 192.0.2.7:50000" in caplog.text


def test_a_drained_broker_waits_for_no_login(harness: LoginHarness, client: LoginClient) -> None:
    failing = harness.client()
    failing.handshake()
    failing.token(plain_token("alice", "wrong"))
    for each in (client, failing):
        each.connection.drain()
        assert each.is_closed()


# ---- a client that does not read


def test_an_answer_that_does_not_fit_yet_is_sent_on(client: LoginClient) -> None:
    client.transport.peer_window = 5
    client.handshake()
    assert not client.is_read()
    assert client.transport.awaits_room
    received = client.transport.read(2)
    assert len(received) == 7
    assert not client.is_read()
    assert len(client.transport.read()) > 10
    assert client.is_read()
    client.token(plain_token("alice", "pencil"))
    assert client.principal == KafkaPrincipal("alice")


def test_the_last_answer_is_sent_before_requests_are_handled(client: LoginClient) -> None:
    client.handshake()
    client.frames()
    client.transport.peer_window = 0
    client.token(plain_token("alice", "pencil"))
    client >> "echo one"
    assert client.principal is None
    client.transport.read()
    client.settle()
    client << "one"
    assert client.principal == KafkaPrincipal("alice")


# ---- checks that wait for others


def test_nothing_is_read_while_a_check_runs_in_a_thread(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake("SLOW")
    client.frames()
    client.token(b"done carol")
    assert harness.runner.held == 1
    assert not client.is_read()
    assert harness.authentications.memory.used_bytes > 0
    harness.runner.release()
    assert len(client.frames()) == 1
    assert client.principal == KafkaPrincipal("carol")
    assert harness.authentications.memory.used_bytes == 0
    client >> "echo one" << "one"


def test_a_check_of_several_rounds(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake("SLOW")
    for token in (b"more", b"done carol"):
        assert client.is_read()
        client.token(token)
        harness.runner.release()
    assert client.principal == KafkaPrincipal("carol")


def test_a_check_that_ends_when_the_client_has_gone(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake("SLOW")
    client.token(b"done carol")
    client.connection.abort()
    harness.runner.release()
    assert client.principal is None


# ---- limits of time and memory


def test_a_login_that_takes_too_long_is_ended(
    harness: LoginHarness, client: LoginClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.handshake()
    done = harness.client("192.0.2.8")
    done.log_in()
    harness.timer.advance(1)
    late = harness.client("192.0.2.9")
    harness.timer.advance(TIMEOUT_S - 1)
    harness.authentications.sweep(harness.timer.time())
    assert [each.is_closed() for each in (client, done, late)] == [True, False, False]
    assert harness.probe.failed_authentications == 1
    assert "client 192.0.2.7:50000" in caplog.text
    assert "it took longer than 30000 ms" in caplog.text
    harness.timer.advance(1)
    harness.authentications.sweep(harness.timer.time())
    assert late.is_closed()


def test_a_login_that_takes_long_gives_way(
    harness: LoginHarness, client: LoginClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.handshake()
    done, second = harness.client("192.0.2.8"), harness.client("192.0.2.9")
    done.log_in()
    harness.timer.advance(1)
    harness.client("192.0.2.10")
    logins, now = harness.authentications, harness.timer.time()
    listener = client.connection.info.listener_name
    assert list(logins.begun_before(now - 1)) == [client.connection, second.connection]
    assert list(logins.begun_before(now - 1, listener)) == [client.connection, second.connection]
    assert list(logins.begun_before(now - 1, "ANOTHER")) == []
    second.connection.closing = True
    assert len(list(logins.begun_before(now))) == 2
    logins.give_way(client.connection)
    assert client.is_closed()
    assert harness.probe.failed_authentications == 1
    assert "there are too many connections" in caplog.text


def test_unfinished_frames_are_charged_and_the_largest_lose(
    harness: LoginHarness, caplog: pytest.LogCaptureFixture
) -> None:
    small = [harness.client() for _ in range(5)]
    for each in small:
        each.send(size_prefix(9000) + bytes(100))
    large = [harness.client() for _ in range(12)]
    for each in large:
        each.send(size_prefix(9500) + bytes(9000))
    memory = harness.authentications.memory
    assert 0 < memory.used_bytes <= memory.limit_bytes
    assert [each.is_closed() for each in small] == [False] * 5
    assert any(each.is_closed() for each in large)
    assert "the memory for logins is used up" in caplog.text
    for each in (*small, *large):
        if not each.is_closed():
            each.connection.abort()
    assert memory.used_bytes == 0
    assert len(harness.authentications) == 0


def test_what_a_mechanism_keeps_between_tokens_is_charged(
    harness: LoginHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """The first message of SCRAM, of which the broker keeps parts, may be large, with none behind it."""
    clients = [harness.client() for _ in range(20)]
    for client in clients:
        client.handshake("SCRAM-SHA-256")
        client.token(b"n,,n=" + b"u" * 1900 + b",r=" + b"r" * 1900)
    memory = harness.authentications.memory
    assert memory.used_bytes <= memory.limit_bytes
    assert 0 < sum(not client.is_closed() for client in clients) <= 7
    assert "the memory for logins is used up" in caplog.text
    usual = harness.client()
    usual.handshake("SCRAM-SHA-256")
    usual.token(b"n,,n=alice,r=nonce")
    assert len(usual.frames()) == 2
    for client in (*clients, usual):
        if not client.is_closed():
            client.connection.abort()
    assert memory.used_bytes == 0


def test_a_login_leaves_nothing_charged(harness: LoginHarness, client: LoginClient) -> None:
    client.versions()
    client.handshake("SCRIPTED")
    assert harness.authentications.memory.used_bytes == 0  # as usual
    client.token(b"more " + b"x" * 4000)
    assert harness.authentications.memory.used_bytes > KEPT_TIMES * (4000 - FREE_BYTES)
    client.token(b"done alice")
    assert client.principal == KafkaPrincipal("alice")
    assert harness.authentications.memory.used_bytes == 0


def test_a_complete_frame_that_is_too_much_ends_its_own_connection() -> None:
    client = LoginHarness(memory_bytes=500).client()
    client.handshake("SCRIPTED")
    client.token(b"done " + b"x" * 600)
    assert client.is_closed()
    assert client.principal is None


def test_no_more_is_read_at_once_than_fits_into_the_shared_buffer() -> None:
    harness = LoginHarness(memory_bytes=1 << 20)
    assert len(harness.authentications.buffer) == READ_BYTES


# ---- log lines


def test_one_line_for_each_failure_and_no_password_in_it(
    harness: LoginHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    harness.client().log_in("alice", "pencils")
    assert caplog.messages == [
        "failed authentication: listener SASL, client 192.0.2.7:50000, mechanism PLAIN, user alice: "
        "Authentication failed: Invalid username or password"
    ]
    harness.client().log_in("bob", "pencils")
    harness.client("192.0.2.8").handshake("x\n" * 300)
    assert caplog.messages[1].startswith(
        "failed authentication: listener SASL, client 192.0.2.8:50000, mechanism unknown, user unknown: "
        r"mechanism x\nx\n"
    )
    harness.timer.advance(INTERVAL_S)
    harness.client().log_in("carol", "pencils")
    assert caplog.messages[2].endswith("(and 1 more of this address since the last such line)")
    assert "pencils" not in caplog.text


# ---- OAUTHBEARER, whose tokens come in one message


def test_a_token_may_be_as_long_as_a_frame() -> None:
    most = SASL_SERVER_MAX_RECEIVE_SIZE.default
    harness = LoginHarness(memory_bytes=LIMIT_BYTES)
    harness.listener = SaslListener({OAUTHBEARER: signed()}, most)
    clients = [harness.client() for _ in range(LIMIT_BYTES // most)]
    claims = {"sub": "alice", "roles": ["a" * 97] * (most // 137)}
    token = message(KEY.token(claims, NOW_MS / 1000))
    assert 0.95 * most < len(token) < most - 100
    for client in clients:
        client.handshake(OAUTHBEARER)
        client.token(token)
        assert not client.is_read()
    assert harness.runner.held == len(clients)  # a token takes longer than the loop may wait
    harness.runner.release_all()
    assert {client.principal for client in clients} == {KafkaPrincipal("alice")}
    assert harness.authentications.memory.used_bytes == 0
