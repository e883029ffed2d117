"""Fetch sessions (KIP-227)."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from tests.conformance.dialogue_client import NO_ID, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.fetch import LAST, filled, name_or_id
from tests.conformance.dialogues.metadata import metadata_request
from tests.conformance.dialogues.words import IDS_IN_FETCH, fetch, fetch_topic, partition

FIRST = 7


class Session:
    """One session, and the requests that belong to it."""

    def __init__(self, client: DialogueClient, *names: str) -> None:
        self.client = client
        self.topics = {name: name_or_id(client, name) for name in names}
        self.id = 0
        self.epoch = 0

    def fetch(
        self,
        wanted: dict[str, list[Any]] | None = None,
        forgotten: dict[str, list[int]] | None = None,
        *,
        epoch: int | None = None,
        session_id: int | None = None,
        version: int | None = None,
    ) -> Any:
        request = fetch(
            *(fetch_topic(self._name_or_id(name), partitions) for name, partitions in (wanted or {}).items()),
            forgotten=[self._forgotten(name, indexes) for name, indexes in (forgotten or {}).items()],
            session_id=self.id if session_id is None else session_id,
            session_epoch=self.epoch if epoch is None else epoch,
        )
        answer = self.client.request(request, version)
        if answer is not None and answer.error_code == 0 and epoch is None:
            self.id, self.epoch = answer.session_id, self.epoch + 1
        return answer

    def _name_or_id(self, name: str) -> Any:
        return self.topics.get(name, NO_ID if self.client.version >= IDS_IN_FETCH else name)

    def _forgotten(self, name: str, indexes: list[int]) -> FetchRequest.ForgottenTopic:
        key = self._name_or_id(name)
        if isinstance(key, bytes):
            return FetchRequest.ForgottenTopic(topic_id=key, partitions=indexes)
        return FetchRequest.ForgottenTopic(topic=key, partitions=indexes)


@dialogue(ApiKey.FETCH, FIRST, LAST)
def incremental_fetches_return_changes(client: DialogueClient) -> None:
    name = client.create("a", 2)
    session = Session(client, name)
    session.fetch({name: [partition(0), partition(1)]})
    session.fetch()
    client.write(name, batch(b"1"), partition=1)
    session.fetch()
    session.fetch()
    session.fetch({name: [partition(1, 1)]})
    session.fetch()
    client.write(name, batch(b"2"), batch(b"3"), partition=0)
    session.fetch({name: [partition(0, 1)]})


@dialogue(ApiKey.FETCH, FIRST, LAST)
def partitions_are_added_and_forgotten(client: DialogueClient) -> None:
    a, b = filled(client, "a"), filled(client, "b")
    session = Session(client, a, b)
    session.fetch({a: [partition(0, 8)]})
    session.fetch({b: [partition(0, 9)]})
    session.fetch({}, {a: [0, 5]})
    session.fetch({a: [partition(0, 9)]}, {b: [0]})
    session.fetch({a: [partition(0, 9)]}, {a: [0]})
    session.fetch({b: [partition(0, 9)]})


@dialogue(ApiKey.FETCH, FIRST, LAST)
def a_session_without_partitions_ends(client: DialogueClient) -> None:
    name = filled(client)
    session = Session(client, name)
    session.fetch({name: [partition(0, 8)]})
    session.fetch({}, {name: [0]}, epoch=1)
    session.fetch({name: [partition(0, 8)]}, epoch=2)


@dialogue(ApiKey.FETCH, FIRST, LAST)
def a_session_that_starts_empty(client: DialogueClient) -> None:
    session = Session(client, name := filled(client))
    session.fetch()
    session.fetch({name: [partition(0, 8)]})
    session.fetch({name: [partition(0, 9)]})


@dialogue(ApiKey.FETCH, FIRST, LAST)
def session_epochs(client: DialogueClient) -> None:
    name = filled(client)
    session = Session(client, name)
    session.fetch({name: [partition(0, 8)]})
    for epoch in (2, 3, 2**31 - 1, -2):
        session.fetch({}, epoch=epoch)
    session.fetch()
    session.fetch({}, epoch=1)
    session.fetch()


@dialogue(ApiKey.FETCH, FIRST, LAST)
def unknown_sessions(client: DialogueClient) -> None:
    name = filled(client)
    session = Session(client, name)
    for session_id, epoch in ((0, 1), (123_456_789, 1), (-1, 1), (123_456_789, -1), (0, -1)):
        session.fetch({name: [partition(0, 8)]}, session_id=session_id, epoch=epoch)


@dialogue(ApiKey.FETCH, FIRST, LAST)
def a_client_closes_its_session(client: DialogueClient) -> None:
    name = filled(client)
    session = Session(client, name)
    session.fetch({name: [partition(0, 8)]})
    session.fetch({name: [partition(0, 9)]}, epoch=-1)
    session.fetch({}, epoch=1)


@dialogue(ApiKey.FETCH, FIRST, LAST)
def a_full_fetch_replaces_the_session(client: DialogueClient) -> None:
    a, b = filled(client, "a"), filled(client, "b")
    session = Session(client, a, b)
    first = session.fetch({a: [partition(0, 8)]})
    session.epoch = 0
    second = session.fetch({b: [partition(0, 8)]})
    client.note(first.session_id == second.session_id)
    session.fetch({}, session_id=first.session_id, epoch=1)
    session.fetch()


@dialogue(ApiKey.FETCH, FIRST, LAST)
def errors_are_repeated_in_each_response(client: DialogueClient) -> None:
    name = filled(client)
    session = Session(client, name)
    session.fetch({name: [partition(0, 99), partition(7)], client.topic("b"): [partition(0)]})
    session.fetch()
    session.fetch({name: [partition(0, 10)]})
    session.fetch()
    session.fetch({}, {client.topic("b"): [0], name: [7]})
    session.fetch()


@dialogue(ApiKey.FETCH, FIRST, LAST)
def a_topic_is_deleted_during_a_session(client: DialogueClient) -> None:
    a, b = filled(client, "a"), filled(client, "b")
    session = Session(client, a, b)
    session.fetch({a: [partition(0, 10)], b: [partition(0, 10)]})
    client.connection.request(DeleteTopicsRequest(topic_names=[a], timeout_ms=30_000), 5)
    client.request_until(metadata_request(a), lambda answer: answer.topics[0].error_code, 12)
    session.fetch()
    session.fetch()
    client.create("a")
    session.fetch()


@dialogue(ApiKey.FETCH, FIRST, 12)
def a_session_in_another_version(client: DialogueClient) -> None:
    """Topics have names before version 13 and ids from there on: a session keeps to one of the two."""
    name = filled(client)
    session = Session(client, name)
    session.fetch({name: [partition(0, 8)]})
    session.fetch(version=13, epoch=1)
    session.fetch()
