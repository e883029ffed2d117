"""QuotaType."""

from __future__ import annotations

from barnabas.broker.quotas.quota_types import TYPE_OF_KEY, QuotaType


def test_each_type_has_a_key() -> None:
    assert sorted(TYPE_OF_KEY) == [
        "consumer_byte_rate",
        "controller_mutation_rate",
        "producer_byte_rate",
        "request_percentage",
    ]
    assert set(TYPE_OF_KEY.values()) == set(QuotaType)
