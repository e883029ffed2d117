"""How a listener is secured: never with logins that were forgotten."""

from __future__ import annotations

import pytest

from barnabas.broker.network.listener_security import ListenerSecurity, without_security
from barnabas.broker.request import ANONYMOUS
from barnabas.config.listeners import Listener
from tests.broker.security.sasl.logins import listener


def test_requests_of_a_plaintext_listener_are_anonymous() -> None:
    security = without_security(Listener("PLAINTEXT", None, 9092))
    assert security.initial_principal is ANONYMOUS
    assert security.sasl is None


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_requests_of_a_listener_with_logins_are_nobodys_at_first(protocol: str) -> None:
    assert ListenerSecurity(protocol, listener()).initial_principal is None
    with pytest.raises(AssertionError):
        ListenerSecurity(protocol)


def test_a_listener_without_logins_in_its_protocol_has_none() -> None:
    with pytest.raises(AssertionError):
        ListenerSecurity("PLAINTEXT", listener())
    with pytest.raises(AssertionError):
        without_security(Listener("SSL", None, 9093, "SSL"))
