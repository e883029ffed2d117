"""DecisionCache: whose decisions are shared, how much is kept, and what goes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal
from barnabas.broker.security import decisions as bounds
from barnabas.broker.security.decisions import MAX_KEPT_CHARACTERS, Check, DecisionCache, Decisions
from barnabas.protocol.messages.acls import AclOperation, AclResourceType

GENERATION = 1
TOPIC = AclResourceType.TOPIC
READ = Check(AclOperation.READ, TOPIC)
UNITS_OF_A_CLIENT = 8


def connection(
    who: str | None = "alice", host: str = "10.0.0.1", listener: str = "INSIDE", *, by_token: bool = False
) -> ConnectionInfo:
    return ConnectionInfo(
        connection_id=1,
        listener_name=listener,
        client_host=host,
        client_port=1,
        local_host="h",
        local_port=2,
        principal=None if who is None else KafkaPrincipal(who, token_authenticated=by_token),
    )


def keep(decisions: Decisions, *names: str) -> None:
    for name in names:
        decisions.keep(READ, name, allowed=True)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_KEPT", 40)
    monkeypatch.setattr(bounds, "MAX_KEPT_OF_A_CLIENT", 12)


def test_connections_of_one_client_share_decisions() -> None:
    cache, first, second = DecisionCache(), connection(), connection()
    keep(cache.of(first, GENERATION), "t")
    assert cache.of(second, GENERATION) is cache.of(first, GENERATION)
    assert cache.of(second, GENERATION).of(READ) == {"t": True}
    assert len(cache) == 1


@pytest.mark.parametrize(
    "other",
    [
        connection("bob"),
        connection(host="10.0.0.2"),
        connection(listener="OUTSIDE"),
        connection(by_token=True),
    ],
)
def test_others_do_not(other: ConnectionInfo) -> None:
    cache = DecisionCache()
    keep(cache.of(connection(), GENERATION), "t")
    assert cache.of(other, GENERATION).of(READ) == {}


def test_another_principal_on_the_same_connection_has_its_own() -> None:
    cache, of = DecisionCache(), connection()
    keep(cache.of(of, GENERATION), "t")
    of.principal = KafkaPrincipal("bob")
    assert cache.of(of, GENERATION).of(READ) == {}
    of.principal = KafkaPrincipal("alice")
    assert cache.of(of, GENERATION).of(READ) == {"t": True}


def test_another_generation_begins_with_nothing() -> None:
    cache, of = DecisionCache(), connection()
    before = cache.of(of, GENERATION)
    keep(before, "t")
    keep(cache.of(connection("bob"), GENERATION), "t")
    after = cache.of(of, GENERATION + 1)
    assert after is not before
    assert (len(cache), cache.units, before.units) == (1, UNITS_OF_A_CLIENT, 0)
    keep(before, "t")  # of a request that began before
    assert (before.of(READ), after.of(READ), cache.units) == ({}, {}, UNITS_OF_A_CLIENT)


def test_without_a_generation_nothing_is_kept() -> None:
    cache, of = DecisionCache(), connection()
    first = cache.of(of, None)
    keep(first, "t")
    assert cache.of(of, None) is not first
    assert (first.of(READ), len(cache), cache.units) == ({}, 0, 0)


def test_a_client_that_has_not_logged_in_is_not_answered() -> None:
    with pytest.raises(AssertionError):
        DecisionCache().of(connection(None), GENERATION)


def test_long_names_cost_more_or_are_not_kept() -> None:
    """A name may have 32,767 bytes, and is the client's choice."""
    cache = DecisionCache()
    decisions = cache.of(connection(), GENERATION)
    for length, units in ((63, 1), (64, 2), (MAX_KEPT_CHARACTERS, 5), (MAX_KEPT_CHARACTERS + 1, 0)):
        before = cache.units
        keep(decisions, "n" * length)
        decisions.keep_operations(TOPIC, "n" * length, 7)
        assert cache.units - before == 2 * units
        assert decisions.operations(TOPIC, "n" * length) == (7 if units else None)
    assert len(decisions.of(READ)) == 3


@pytest.mark.usefixtures("small")
def test_a_client_that_has_too_much_begins_again() -> None:
    cache = DecisionCache()
    decisions = cache.of(connection(), GENERATION)
    keep(decisions, "a", "b", "c", "d")
    assert (list(decisions.of(READ)), cache.units) == (["a", "b", "c", "d"], 12)
    keep(decisions, "e")
    assert (list(decisions.of(READ)), cache.units) == (["e"], 1)
    assert cache.of(connection(), GENERATION) is decisions


@pytest.mark.usefixtures("small")
def test_those_that_ask_nothing_go_first() -> None:
    cache, connections = DecisionCache(), [connection(name) for name in "abcd"]
    kept = [cache.of(one, GENERATION) for one in connections]
    for decisions in kept:
        keep(decisions, "t", "u")
    assert cache.units == 40
    newest = cache.of(
        connection("e"), GENERATION
    )  # all have asked since they were looked at: the oldest goes
    assert [one.is_kept for one in kept] == [False, True, True, True]
    cache.of(connections[1], GENERATION)
    keep(newest, "t", "u", "v")
    assert [one.is_kept for one in kept] == [False, True, False, True]
    again = cache.of(connections[0], GENERATION)
    assert again is not kept[0]
    assert again.of(READ) == {}


@pytest.mark.usefixtures("small")
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.text("ab", max_size=3), st.booleans())))
def test_units_are_those_of_all_clients_and_bounded(asked: list[tuple[int, int, str, bool]]) -> None:
    cache = DecisionCache()
    seen: list[Decisions] = []
    for client, generation, name, is_long in asked:
        decisions = cache.of(connection(str(client)), generation)
        keep(decisions, name * (90 if is_long else 1))
        seen.append(decisions)
        assert cache.units <= bounds.MAX_KEPT
        assert cache.units == sum(one.units for one in set(seen) if one.is_kept)
        assert all(one.units <= bounds.MAX_KEPT_OF_A_CLIENT for one in seen)
        assert not any(one.by_check or one.units for one in seen if not one.is_kept)
    assert len(cache) == len({one for one in seen if one.is_kept})


def test_checks_are_named() -> None:
    assert repr(Check(AclOperation.READ, TOPIC, quiet=True)) == "<Check READ TOPIC quiet>"
