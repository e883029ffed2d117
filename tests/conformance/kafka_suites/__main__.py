"""Writes the table of suites.toml into its page: python -m tests.conformance.kafka_suites."""

from __future__ import annotations

from tests.conformance.kafka_suites.suites import PAGE, ROOT, page_with, suites

if __name__ == "__main__":
    (ROOT / PAGE).write_text(page_with(suites()))
