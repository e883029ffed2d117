"""Tests that rejections by a broker are reported in a sentence."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.pipeline.demo.producing import NotDeliveredError, create_topics


class _Refusing:
    """An admin client whose broker creates no topics."""

    def __init__(self, _settings: dict[str, str]) -> None:
        pass

    def create_topics(self, topics: list[object], **_: float) -> dict[str, Future[None]]:
        refused: Future[None] = Future()
        refused.set_exception(KafkaException(KafkaError(KafkaError.POLICY_VIOLATION, "too many topics")))
        return dict.fromkeys(map(str, range(len(topics))), refused)


def test_topics_that_cannot_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", _Refusing)
    with pytest.raises(NotDeliveredError, match="too many topics"):
        create_topics("localhost:1")
