"""Exchange: one connection to another node as bytes: versions are negotiated (KIP-35, KIP-511), then requests are sent.

It knows no socket and no clock. Requests may be sent one behind the other; a node answers them in their order.
Source: org.apache.kafka.clients.NetworkClient, NodeApiVersions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.broker.node_client.channel import ResponseCorrupt, UnsupportedVersion
from barnabas.broker.version import VERSION
from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from barnabas.protocol.codec import decode, decoder, encode, encoder, join_chunks
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import LARGE_FRAME_BYTES, Frame, Framer, is_free, size_prefix
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message, VersionRange
from barnabas.protocol.wire import Chunk

MAX_RESPONSE_BYTES: Final = 512 << 20
"""Above any valid response; a peer with another protocol seems to announce gigabytes."""

CLIENT_SOFTWARE_NAME: Final = "barnabas"
_LAST_CORRELATION_ID: Final = 2**31 - 1
_CORRELATION_ID_AT: Final = 4
"""In a RequestHeader of any version, behind the API's key and version."""
_CORRELATION_ID_BYTES: Final = 4


class _Api(NamedTuple):
    """An API in one version: what its requests and responses need, looked up once for a connection."""

    key: ApiKey
    version: int
    header_start: bytes
    """Of a request: what comes before its correlation id,"""
    header_end: bytes
    """and behind it."""
    encode: Callable[[Any, list[Chunk]], None]
    decode_header: Callable[[Frame, int, int], tuple[ResponseHeader, int]]
    response: type[Message]


class _Sent(NamedTuple):
    correlation_id: int
    api: _Api


class ResponseMemory:
    """The memory of the large responses of one connection, which is used again while they follow each other.

    New memory is zeroed and faulted in, which a replica that catches up would pay for with each fetch.
    """

    def __init__(self) -> None:
        self._memory = bytearray()

    def take(self, size: int) -> memoryview:
        """A place for `size` bytes: that of the last response, if it is large enough and nothing refers to it."""
        if len(self._memory) < size or not is_free(self._memory):
            self._memory = bytearray(size)
        return memoryview(self._memory)[:size]

    def release(self) -> None:
        """The responses are small again."""
        if self._memory:
            self._memory = bytearray()


class Exchange:
    """The bytes of one connection. After a ProtocolError it is of no use: the connection has to be closed."""

    def __init__(self, client_id: str) -> None:
        self._memory = ResponseMemory()
        self.framer = Framer(MAX_RESPONSE_BYTES, self._memory.take)
        self.is_ready = False
        """Whether the versions are known, so that requests may be sent."""
        self._client_id = client_id
        self._correlation_id = 0
        self._sent: deque[_Sent] = deque()
        self._served: Mapping[int, VersionRange] = {}
        self._apis: dict[tuple[int | None, int | None], _Api] = {}
        """By API key and the version that the caller asks for, None for the newest common one."""

    def begin(self) -> bytes:
        """The bytes that open the connection: an ApiVersions request in the newest version."""
        return self._request_versions(ApiVersionsRequest.versions.high)

    def served(self, key: int) -> VersionRange | None:
        """The versions of an API that the peer serves; None for one that it does not."""
        return self._served.get(key)

    def request(self, message: Message, version: int | None = None) -> bytes | UnsupportedVersion:
        """The bytes of a request in `version`, by default in the newest that both sides know.

        Nothing is sent where there is no such version, or where the version cannot carry the message.
        """
        assert self.is_ready
        api = self._apis.get((message.api_key, version))
        if api is None:
            assert message.api_key is not None
            key = ApiKey(message.api_key)
            chosen = self._version(key, version)
            if isinstance(chosen, UnsupportedVersion):
                return chosen
            api = self._apis[key, version] = self._api(key, chosen)
        try:
            return self._frame(api, message)
        except ValueError as error:
            return UnsupportedVersion(f"{api.key.title} v{api.version} cannot carry the request: {error}")

    def receive(self, frame: Frame) -> Message | ResponseCorrupt | bytes | None:
        """The response in a frame. Before `is_ready`: the bytes to send next, or None when the negotiation is complete.

        Records in a response are views of the frame. Raises ProtocolError where the peer answers something else than
        the oldest request, or rejects the negotiation.
        """
        if not self._sent:
            raise ProtocolError("a response came, and no request is in flight")
        if len(frame) < LARGE_FRAME_BYTES:
            self._memory.release()
        correlation_id, api = self._sent.popleft()
        header, position = api.decode_header(frame, 0, len(frame))
        if header.correlation_id != correlation_id:
            raise ProtocolError(
                f"the response has correlation id {header.correlation_id} and belongs to {correlation_id}"
            )
        body = frame[position:]
        if not self.is_ready:
            return self._negotiated(body, api.version)
        try:
            return decode(api.response, api.version, body)
        except ProtocolError as error:
            return ResponseCorrupt(f"{api.key.title} v{api.version}: {error}")

    # -- versions --

    def _version(self, key: ApiKey, version: int | None) -> int | UnsupportedVersion:
        theirs, ours = self._served.get(key), known_versions(key)
        if theirs is None:
            return UnsupportedVersion(f"the node does not serve {key.title}")
        low, high = max(ours.low, theirs.low), min(ours.high, theirs.high)
        wanted = high if version is None else version
        if low <= wanted <= high:
            return wanted
        needed = f"one of {ours}" if version is None else f"version {version}"
        return UnsupportedVersion(
            f"the node serves {key.title} in versions {theirs}, and this needs {needed}"
        )

    def _request_versions(self, version: int) -> bytes:
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=VERSION.replace("+", ".")
        )
        return self._frame(self._api(ApiKey.API_VERSIONS, version), request)

    def _negotiated(self, body: Frame, version: int) -> bytes | None:
        if int.from_bytes(body[:2]) == ErrorCode.UNSUPPORTED_VERSION and version > 0:
            rejection = decode(ApiVersionsResponse, 0, body)  # always in version 0: see KIP-511
            offered = next(
                (api.max_version for api in rejection.api_keys if api.api_key == ApiKey.API_VERSIONS), 0
            )
            return self._request_versions(min(max(offered, 0), version - 1))
        response = decode(ApiVersionsResponse, version, body)
        if response.error_code:
            raise ProtocolError(f"the node rejects ApiVersions v{version} with error {response.error_code}")
        self._served = {
            api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys
        }
        self.is_ready = True
        return None

    # -- frames --

    def _api(self, key: ApiKey, version: int) -> _Api:
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=0, client_id=self._client_id
        )
        head = encode(header, request_header_version(key, version))
        return _Api(
            key,
            version,
            head[:_CORRELATION_ID_AT],
            head[_CORRELATION_ID_AT + _CORRELATION_ID_BYTES :],
            encoder(request_type(key), version),
            decoder(ResponseHeader, response_header_version(key, version)),
            response_type(key),
        )

    def _frame(self, api: _Api, message: Message) -> bytes:
        """The frame of a request. Raises ValueError where the version cannot carry it."""
        chunks: list[Chunk] = []
        api.encode(message, chunks)
        body = join_chunks(chunks)
        correlation_id = self._correlation_id % _LAST_CORRELATION_ID + 1
        self._correlation_id = correlation_id
        self._sent.append(_Sent(correlation_id, api))
        size = len(api.header_start) + _CORRELATION_ID_BYTES + len(api.header_end) + len(body)
        return b"".join(
            (
                size_prefix(size),
                api.header_start,
                correlation_id.to_bytes(_CORRELATION_ID_BYTES, "big"),
                api.header_end,
                body,
            )
        )
