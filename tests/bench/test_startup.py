"""Tests the report of starts, without timing any."""

from __future__ import annotations

from bench.document import render_section
from bench.startup import Startup, section

OURS = Startup([0.2, 0.3, 0.4], [0.1], [0.2], [40.0])
KAFKA = Startup([3.0], [2.0], [4.0], [400.0])


def test_starts_of_both_brokers_have_a_ratio() -> None:
    text = render_section(section({"Barnabas": OURS, "Apache Kafka": KAFKA}, rounds=3))
    assert "| start in a new directory, s | 0.30 | 3.00 | 0.20 | 0.100 |" in text
    assert "| start after kill -9, s | 0.20 | 4.00 | 0.20 | 0.050 |" in text
    assert "| idle memory, MiB | 40.0 | 400 | 40.0 | 0.10 |" in text


def test_one_broker_alone_has_no_ratio() -> None:
    found = section({"Barnabas": OURS}, rounds=3)
    assert "| start after a clean stop, s | 0.10 | 0.10 | - |" in render_section(found)
    assert found.figures == {
        "start in a new directory, s": 0.3,
        "start after a clean stop, s": 0.1,
        "start after kill -9, s": 0.2,
        "idle memory, MiB": 40.0,
    }
