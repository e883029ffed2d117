"""Feature levels: nothing is switched on that this broker cannot do."""

from __future__ import annotations

from broker.features import FEATURES


def test_what_is_in_force_is_supported_or_off() -> None:
    for feature in FEATURES:
        assert 0 <= feature.low <= feature.high
        assert feature.finalized == 0 or feature.low <= feature.finalized <= feature.high


def test_each_feature_is_there_once_and_in_order() -> None:
    names = [feature.name for feature in FEATURES]
    assert names == sorted(set(names))


def test_protocols_that_nobody_answers_are_off() -> None:
    levels = {feature.name: feature.finalized for feature in FEATURES}
    assert (levels["group.version"], levels["transaction.version"]) == (0, 0)
