"""The generated reference."""

from __future__ import annotations

from pathlib import Path

from barnabas.config.catalogue import BROKER_KEYS, TOPIC_KEYS
from barnabas.config.reference import render

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_document_is_what_the_catalogue_makes() -> None:
    assert DOCUMENT.read_text() == render(), "run `make docs`"


def test_every_key_that_a_user_may_set_is_in_it() -> None:
    text = render()
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        assert (f"### `{key.name}`\n" in text) is not key.internal


def test_an_entry_holds_the_facts() -> None:
    assert (
        "### `segment.ms`\n\n"
        "A segment older than this is closed even if it is not full, so that retention and compaction can reach it.\n\n"
        "Default: `604800000`; must be a whole number, at least 1; medium importance; "
        "where unset, the broker's `log.roll.ms`, then `log.roll.hours`.\n"
    ) in render()
    assert "*No effect here: one event loop serves every connection and request;" in render()
