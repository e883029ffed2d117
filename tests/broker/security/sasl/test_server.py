"""The results of a login, and its kinds of failure."""

from __future__ import annotations

from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError, SaslError


def test_a_login_has_no_end_and_no_token_by_itself() -> None:
    assert Login("alice") == ("alice", False, None)


def test_what_a_client_may_know_is_a_failure_too() -> None:
    assert issubclass(SaslAuthenticationError, SaslError)


def test_the_log_may_know_more_than_the_client() -> None:
    assert SaslAuthenticationError("wrong password").reason == "wrong password"
    error = SaslAuthenticationError("invalid_token", reason="it has expired")
    assert (str(error), error.reason) == ("invalid_token", "it has expired")
