"""Which quota is in force for whom, and who shares a counter."""

from __future__ import annotations

import pytest

from barnabas.broker.quotas.limits import ANY, Entity, QuotaLimits
from barnabas.broker.request import KafkaPrincipal

ALICE, C = ("alice",), ("c",)
LEVELS: list[tuple[Entity, tuple[str, str]]] = [
    ((ALICE, C), ("alice", "c")),
    ((ALICE, ANY), ("alice", "c")),
    ((ALICE, None), ("alice", "")),
    ((ANY, C), ("alice", "c")),
    ((ANY, ANY), ("alice", "c")),
    ((ANY, None), ("alice", "")),
    ((None, C), ("", "c")),
    ((None, ANY), ("", "c")),
]
"""In the order of precedence, with the key under which alice's requests with the client id c are counted."""


def key_and_limit(
    limits: QuotaLimits, user: str = "alice", client_id: str = "c"
) -> tuple[object, float | None]:
    key = limits.key(KafkaPrincipal(user), client_id)
    return key, limits.limit(key)


def test_the_most_specific_quota_is_in_force_as_they_come_and_go() -> None:
    limits = QuotaLimits()
    assert not limits
    for level in reversed(range(len(LEVELS))):
        limits.update(LEVELS[level][0], float(level))
        assert key_and_limit(limits) == (LEVELS[level][1], level)
    for level, (entity, _) in enumerate(LEVELS[:-1]):
        limits.update(entity, None)
        assert key_and_limit(limits) == (LEVELS[level + 1][1], level + 1)
    limits.update(LEVELS[-1][0], None)
    assert not limits
    assert key_and_limit(limits) == (("", "c"), None)


@pytest.mark.parametrize(("entity", "key"), LEVELS)
def test_one_level_by_itself(entity: Entity, key: tuple[str, str]) -> None:
    limits = QuotaLimits()
    limits.update(entity, 5.0)
    limits.update(entity, 6.0)
    assert key_and_limit(limits) == (key, 6.0)
    limits.update(entity, None)
    limits.update(entity, None)
    assert not limits


def test_quotas_of_others_do_not_matter() -> None:
    limits = QuotaLimits()
    limits.update((("bob",), C), 1.0)
    assert key_and_limit(limits) == (("alice", "c"), None)
    limits.update((None, ("d",)), 2.0)
    assert key_and_limit(limits) == (("", "c"), None)
    assert key_and_limit(limits, "bob", "d") == (("", "d"), 2.0)
    limits.update((("bob",), None), 3.0)
    assert key_and_limit(limits, "bob", "e") == (("bob", ""), 3.0)


def test_an_empty_client_id_has_no_quota_of_its_own() -> None:
    limits = QuotaLimits()
    limits.update((ANY, ANY), 1.0)
    assert key_and_limit(limits, client_id="") == (("alice", ""), None)
    limits.update((None, ANY), 2.0)
    assert key_and_limit(limits, client_id="") == (("alice", ""), None)
    limits.update((ANY, None), 3.0)
    assert key_and_limit(limits, client_id="") == (("alice", ""), 3.0)


def test_labels_are_sanitized() -> None:
    assert QuotaLimits().labels(("a b", "c d")) == ("a%20b", "c d")
    assert not QuotaLimits().have_changed()
