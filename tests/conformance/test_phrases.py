"""Error messages contain Apache Kafka's phrases: tools and tests search for them as they check error codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import PLAIN
from tests.conformance.phrases import PHRASES, Phrase, messages_in
from tests.conformance.test_dialogues import Pair

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    running = Pair(PLAIN, tmp_path_factory)
    try:
        running.kafka.start()
        running.barnabas.start()
        yield running
    finally:
        running.kill()


def messages_about(port: int, phrase: Phrase, prefix: str) -> tuple[str, list[str]]:
    """The phrase with the names filled in, and the error messages of the response."""
    with BrokerConnection("127.0.0.1", port) as connection:
        client = DialogueClient(connection, 1, prefix)
        messages = list(messages_in(phrase.request(client)))
        return phrase.words.replace("{t}", client.topic("t")).replace("{g}", client.topic("g")), messages


@pytest.mark.parametrize("number", range(len(PHRASES)), ids=[phrase.words[:60] for phrase in PHRASES])
def test_both_brokers_use_the_phrase(number: int, pair: Pair) -> None:
    for port in (pair.kafka.port, pair.barnabas.port):
        words, messages = messages_about(port, PHRASES[number], f"phrases-{number}")
        assert any(words in message for message in messages), messages
