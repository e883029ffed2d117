"""Sessions: their ends, and how often they may be renewed."""

from __future__ import annotations

import pytest

from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.sasl.session import SaslSession, session_lifetime_ms

ALICE = KafkaPrincipal("alice")


@pytest.mark.parametrize(
    ("expires_ms", "max_reauth_ms", "lifetime_ms"),
    [
        (None, 0, None),
        (None, -1, None),
        (None, 3000, 3000),
        (5000, 0, 4000),
        (5000, 3000, 3000),
        (2000, 3000, 1000),
        (500, 0, 0),
        (500, 3000, 0),
    ],
)
def test_how_long_a_session_lasts(
    expires_ms: int | None, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    assert session_lifetime_ms(expires_ms, max_reauth_ms, now_ms=1000) == lifetime_ms


def test_a_session_without_end() -> None:
    session = SaslSession("PLAIN", ALICE)
    assert not session.is_over(1e9)
    assert not session.begin_renewal(1e9)


def test_a_session_is_over_after_its_end() -> None:
    session = SaslSession("PLAIN", ALICE, ends_at=10.0)
    assert [session.is_over(now) for now in (9.0, 10.0, 10.1)] == [False, False, True]


def test_a_renewal_begins_a_second_after_the_last_one_at_the_earliest() -> None:
    session = SaslSession("PLAIN", ALICE, ends_at=10.0)
    assert session.begin_renewal(5.0)
    renewed = SaslSession("PLAIN", ALICE, ends_at=20.0, previous=session)
    assert not renewed.begin_renewal(5.9)
    assert renewed.begin_renewal(6.0)
    assert not renewed.begin_renewal(6.5)
