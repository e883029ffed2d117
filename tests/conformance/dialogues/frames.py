"""What applies to every API: headers, unknown tagged fields, the order of responses, and truncated requests."""

from __future__ import annotations

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.request import REGISTRY
from barnabas.protocol.api_keys import ApiKey, request_header_version, request_type
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import ListOffsetsRequest
from barnabas.protocol.schema import Message
from tests.conformance.broker_connection import ClosedError
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.fetch import filled, name_or_id
from tests.conformance.dialogues.metadata import metadata_request
from tests.conformance.dialogues.words import fetch, fetch_topic, list_offsets, partition

FUTURE = {9999: b"from the future"}


def frame(request: Message, version: int, *, client_id: str | None = "dialogue") -> bytes:
    assert request.api_key is not None
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=5,
        client_id=client_id,
    )
    return encode(header, request_header_version(request.api_key, version)) + encode(request, version)


def outcome(client: DialogueClient, payload: bytes) -> object:
    """The correlation id of the response, or "closed"."""
    try:
        client.connection.send_frame(payload)
        return client.connection.read_frame()[:4].hex()
    except ClosedError:
        return "closed"


@dialogue(ApiKey.METADATA, 0, 13)
def client_ids(client: DialogueClient) -> None:
    for client_id in (None, "", "x" * 1000, "ä", "a b\n"):
        client.note(outcome(client, frame(MetadataRequest(topics=[]), client.version, client_id=client_id)))


@dialogue(ApiKey.METADATA, 9, 13)
def unknown_tagged_fields(client: DialogueClient) -> None:
    request = metadata_request(client.create("a"))
    assert request.topics is not None
    request.unknown_tagged_fields = FUTURE
    request.topics[0].unknown_tagged_fields = FUTURE
    client.request(request)


@dialogue(ApiKey.METADATA, 12, 12)
def unknown_tagged_fields_in_a_header(client: DialogueClient) -> None:
    request = MetadataRequest(topics=[])
    header = RequestHeader(
        request_api_key=3,
        request_api_version=12,
        correlation_id=5,
        client_id="x",
        unknown_tagged_fields=FUTURE,
    )
    client.note(outcome(client, encode(header, 2) + encode(request, 12)))


@dialogue(ApiKey.METADATA, 4, 13)
def trailing_bytes(client: DialogueClient) -> None:
    client.note(outcome(client, frame(MetadataRequest(topics=[]), client.version) + b"more"))


@dialogue(ApiKey.FETCH, 12, 13)
def responses_in_request_order(client: DialogueClient) -> None:
    """The first request has to wait."""
    name = filled(client)
    poll = fetch(fetch_topic(name_or_id(client, name), [partition(0, 10)]), max_wait_ms=300)
    requests: list[tuple[Message, int]] = [
        (poll, client.version),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        (metadata_request(name), 12),
        (list_offsets(name, 0), 7),
    ]
    for request, version in requests:
        client.connection.send(request, version)
    for request, version in requests:
        answer = client.connection.receive(request, version)
        client.note(type(answer).__name__)


@dialogue(ApiKey.API_VERSIONS, 0, 0)
def truncated_requests(client: DialogueClient) -> None:
    """A request of each API in its newest version, cut off at its end by 1 to 11 bytes."""
    handlers.register_all()
    for key, handler in sorted(REGISTRY.items()):
        whole = frame(request_type(key)(), handler.versions[1])
        for missing in range(1, min(12, len(whole) - 22)):
            client.note((key, missing, outcome(client, whole[:-missing])))


@dialogue(ApiKey.LIST_OFFSETS, 1, 11)
def wrong_array_lengths(client: DialogueClient) -> None:
    """The topic count at the end of a request without topics is replaced by a wrong one."""
    whole = frame(ListOffsetsRequest(replica_id=-1), client.version)
    end = {10: -6, 11: -6}.get(client.version, -2) if client.version >= 6 else -4
    width = 1 if client.version >= 6 else 4
    for count in (
        (b"\x02", b"\x7f", b"\x00") if width == 1 else (b"\0\0\0\1", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff")
    ):
        lying = whole[:end] + count + whole[len(whole) + end + width :]
        client.note((count, outcome(client, lying)))
