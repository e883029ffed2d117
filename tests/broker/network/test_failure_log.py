"""Log lines of clients that were not let in."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.network.failure_log import INTERVAL_S, FailureLog, sanitized
from tests.broker.fakes import ManualTimer
from tests.broker.security.sasl.logins import connection_info


def test_a_line_a_second_for_each_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.security")
    timer = ManualTimer()
    log, info, other = FailureLog(timer.time), connection_info(), connection_info()
    other.client_host = "192.0.2.8"
    log.tls_failed(info, "the peer\nshows none")
    log.tls_failed(info, "left out")
    log.login_failed(other, "PLAIN", "bo\nb", "wrong", again=False)
    timer.advance(INTERVAL_S)
    log.login_failed(info, None, None, "wrong", again=True)
    assert caplog.messages == [
        r"failed authentication: listener SASL, client 192.0.2.7:50000: the peer\nshows none",
        r"failed authentication: listener SASL, client 192.0.2.8:50000, mechanism PLAIN, user bo\nb: wrong",
        "failed re-authentication: listener SASL, client 192.0.2.7:50000, mechanism unknown, user unknown: wrong "
        "(and 1 more of this address since the last such line)",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("älice", "älice"),
        ("a\nb\x1b[0m\0", r"a\nb\x1b[0m\x00"),
        ("\u202eevil", r"\u202eevil"),
        ("x" * 300, "x" * 256 + "..."),
    ],
)
def test_what_a_client_sends_cannot_forge_a_line(text: str, shown: str) -> None:
    assert sanitized(text) == shown
