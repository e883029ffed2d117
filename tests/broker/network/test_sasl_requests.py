"""Requests of clients that have logged in: sessions that end, and their renewal in the stream of requests."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.request import KafkaPrincipal
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.network.logins import DELAY_S, LoginClient, LoginHarness
from tests.support.sasl import framed, plain_token, request

SESSION_S = 5.0


@pytest.fixture
def harness() -> LoginHarness:
    return LoginHarness(max_reauth_ms=int(SESSION_S * 1000))


@pytest.fixture
def client(harness: LoginHarness) -> LoginClient:
    client = harness.client()
    client.log_in()
    client.frames()
    return client


def renew(client: LoginClient, user: str = "alice", password: str = "pencil") -> list[bytes]:
    client.log_in(user, password)
    return client.frames()


def test_requests_are_handled_until_the_session_ends(harness: LoginHarness, client: LoginClient) -> None:
    client >> "echo one" << "one"
    harness.timer.advance(SESSION_S)
    client >> "echo two" << "two"
    harness.timer.advance(0.1)
    client >> "echo three" << ""
    assert client.is_closed()
    assert harness.handler.handled == ["echo one", "echo two"]
    assert harness.probe.expired_connections_killed == 1


def test_a_session_without_end_is_not_renewed() -> None:
    client = LoginHarness().client()
    client.log_in()
    client.frames()
    client.harness.handler.records.clear()
    client.handshake()
    assert client.harness.handler.handled[-1].startswith(
        "\x00\x01"
    )  # it reaches the handlers, which reject it
    assert client.is_closed()  # by the scripted one


def test_a_renewal_gives_the_session_another_end(harness: LoginHarness, client: LoginClient) -> None:
    harness.timer.advance(SESSION_S - 1)
    assert len(renew(client)) == 2
    harness.timer.advance(SESSION_S - 1)
    client >> "echo one" << "one"
    assert client.principal == KafkaPrincipal("alice")
    probe = harness.probe
    assert (probe.successful_authentications, probe.successful_reauthentications) == (1, 1)
    assert probe.reauthentication_times.count == 1


def test_a_session_may_be_renewed_after_its_end(harness: LoginHarness, client: LoginClient) -> None:
    harness.timer.advance(SESSION_S + 1)
    assert len(renew(client)) == 2
    client >> "echo one" << "one"


def test_a_renewal_within_a_second_of_the_last_is_a_request_like_any_other(
    harness: LoginHarness, client: LoginClient
) -> None:
    renew(client)
    harness.timer.advance(0.5)
    client.handshake()
    assert harness.handler.handled == ["\x00\x01\x00\x00\x00\x07\x00\x03raw\x00\x05PLAIN"]


def test_such_a_request_after_the_end_of_the_session_closes_the_connection() -> None:
    harness = LoginHarness(max_reauth_ms=200)
    client = harness.client()
    client.log_in()
    renew(client)
    harness.timer.advance(0.3)
    client.handshake()
    assert client.is_closed()
    assert harness.handler.handled == []
    assert harness.probe.expired_connections_killed == 1


def test_a_renewal_waits_for_the_answers_before_it(client: LoginClient) -> None:
    client >> "wait one"
    client.handshake()
    assert client.frames() == []
    client.harness.handler.complete("one")
    one, handshake = client.frames()
    assert one == b"one"
    assert handshake[:4] == b"\0\0\0\7"


def test_a_renewal_and_requests_behind_it_come_together(client: LoginClient) -> None:
    frames = [
        request(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        request(SaslAuthenticateRequest(auth_bytes=plain_token("alice", "pencil")), 2),
        b"\0\0echo one",
    ]
    client.send(b"".join(map(framed, frames)))
    *answers, last = client.frames()
    assert (len(answers), last) == (2, b"one")


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "hush")])
def test_a_renewal_that_fails_is_answered_and_closed_after_the_delay(
    harness: LoginHarness, client: LoginClient, user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert len(renew(client, user, password)) == 1
    client >> "echo one"
    harness.timer.advance(DELAY_S - 0.01)
    assert not client.is_closed()
    harness.timer.advance(0.02)
    (answer,) = client.frames()
    assert b"failed" in answer or b"Cannot change principals" in answer
    assert client.is_closed()
    assert harness.handler.handled == []
    probe = harness.probe
    assert (probe.failed_reauthentications, probe.failed_authentications) == (1, 0)
    assert caplog.messages[0].startswith("failed re-authentication: listener SASL")


def test_a_renewal_that_fails_without_an_answer(harness: LoginHarness, client: LoginClient) -> None:
    client.handshake("SCRIPTED")
    client.frames()
    client.token(b"anything")
    harness.timer.advance(DELAY_S)
    assert client.frames() == []
    assert client.is_closed()


def test_tokens_behind_a_failure_are_not_taken_even_where_they_look_like_requests_that_overlap(
    harness: LoginHarness, client: LoginClient
) -> None:
    client.handshake(version=0)
    client.frames()
    client.send(framed(b"\0\0wrong") + framed(b"\0\0echo one"))
    harness.timer.advance(DELAY_S)
    assert client.frames() == []
    assert client.is_closed()
    assert harness.handler.handled == []


def test_a_renewal_that_is_no_request_is_closed_at_once(client: LoginClient) -> None:
    client.handshake("GSSAPI")
    assert client.frames() == []
    assert client.is_closed()


def test_a_client_that_leaves_while_its_renewal_fails(harness: LoginHarness, client: LoginClient) -> None:
    renew(client, "alice", "wrong")
    client.connection.abort()
    harness.timer.advance(DELAY_S)
    assert harness.closed == [client.connection]


def slow_client(harness: LoginHarness) -> LoginClient:
    client = harness.client()
    client.handshake("SLOW")
    client.token(b"done carol")
    harness.runner.release()
    client.frames()
    client.handshake("SLOW")
    client.frames()
    return client


def test_a_check_that_waits_for_others(harness: LoginHarness) -> None:
    client = slow_client(harness)
    client.token(b"more")
    client >> "echo one"
    assert client.frames() == []
    harness.runner.release()
    assert client.frames()[0].endswith(b"go on" + bytes(9))


def test_a_renewal_by_a_check_that_waits_for_others(harness: LoginHarness) -> None:
    client = slow_client(harness)
    client.token(b"done carol")
    client >> "echo one"
    harness.runner.release()
    renewed, one = client.frames()
    assert b"welcome" in renewed
    assert one == b"one"


def test_a_check_that_fails(harness: LoginHarness) -> None:
    client = slow_client(harness)
    client.token(b"fail")
    harness.runner.release()
    assert client.frames() == []
    harness.timer.advance(DELAY_S)
    (answer,) = client.frames()
    assert b"re-authentication" in answer
    assert client.is_closed()


def test_a_bug_in_a_check_closes_the_connection(
    harness: LoginHarness, caplog: pytest.LogCaptureFixture
) -> None:
    client = slow_client(harness)
    client.token(b"bug")
    harness.runner.release()
    assert client.frames() == []
    assert client.is_closed()
    assert "a bug" in caplog.text


def test_a_token_behind_one_that_is_being_checked_closes_the_connection(
    harness: LoginHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Raw tokens that begin as Produce does, whose requests overlap."""
    client = harness.client()
    client.handshake("SLOW")
    client.token(b"done carol")
    harness.runner.release()
    client.handshake("SLOW", version=0)
    client.frames()
    client.send(framed(b"\0\0done carol"))
    client.send(framed(b"\0\0done carol"))
    assert harness.runner.held == 1
    harness.runner.release()
    assert client.frames() == []
    assert client.is_closed()
    assert "a bug" not in caplog.text
    assert "it goes on while its token is being checked" in caplog.text


def test_a_throttled_client_renews_its_session_when_it_is_read_again(
    harness: LoginHarness, client: LoginClient
) -> None:
    """Even where the session has ended meanwhile: what is late is the broker's doing."""
    client >> "throttle 6000 one" << "one"
    client.handshake()
    client.token(plain_token("alice", "pencil"))
    client >> "echo two"
    assert client.frames() == []
    harness.timer.advance(SESSION_S)
    assert client.frames() == []
    harness.timer.advance(1)
    *renewed, two = client.frames()
    assert (len(renewed), two) == (2, b"two")
    assert harness.probe.successful_reauthentications == 1
    assert not client.is_closed()


def test_a_throttle_time_that_begins_in_front_of_a_renewal_comes_before_it(
    harness: LoginHarness, client: LoginClient
) -> None:
    client >> "limited one"
    client.handshake()
    client.token(plain_token("alice", "pencil"))
    harness.handler.complete_limited("one", mute_ms=500)
    client << "one"
    harness.timer.advance(0.499)
    client << ""
    harness.timer.advance(0.001)
    assert len(client.frames()) == 2


def test_a_session_that_ends_while_the_client_is_throttled_ends_its_connection(
    harness: LoginHarness, client: LoginClient
) -> None:
    client >> "throttle 6000 one, echo two" << "one"
    harness.timer.advance(6)
    assert client.frames() == []
    assert client.is_closed()
    assert harness.probe.expired_connections_killed == 1


def test_a_flood_of_renewals_costs_one_login_a_second(harness: LoginHarness) -> None:
    """The others are answered like any request, without a look at credentials."""
    requests = harness.authentications.guarded(lambda _, frame: [b"no"], harness.listener, harness.probe)
    harness.context.handle = requests
    client = harness.client()
    client.log_in()
    logins = 0
    for _ in range(1000):
        client.handshake()
        if client.info.session.renewal is not None:
            logins += 1
            client.token(plain_token("alice", "pencil"))
        client.frames()
        harness.timer.advance(0.001)
    assert logins == 1
    assert harness.probe.successful_reauthentications == 1
    assert not client.is_closed()


def test_requests_within_a_renewal_are_no_requests(harness: LoginHarness, client: LoginClient) -> None:
    """Nothing of theirs reaches the handlers, whichever API they name."""
    handled = list(harness.handler.handled)
    for number in range(93):
        other = harness.client()
        other.log_in()
        other.handshake()
        other.frames()
        other.send(framed(number.to_bytes(2, "big") + bytes(8)))
        other.harness.timer.advance(DELAY_S)
        assert other.is_closed() or other.info.session.renewal is not None, number
    assert harness.handler.handled == handled
