"""The results of a login, and its two kinds of failure."""

from __future__ import annotations

from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError, SaslError


def test_a_login_has_no_end_and_no_token_by_itself() -> None:
    assert Login("alice") == ("alice", False, None)


def test_what_a_client_may_know_is_a_failure_too() -> None:
    assert issubclass(SaslAuthenticationError, SaslError)
