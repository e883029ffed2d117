"""One request or response: its header, its body, and what is wrong with it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from barnabas.cli.wire.names import api_name
from barnabas.cli.wire.tree import Node, Wrong
from barnabas.cli.wire.walking import Walk, walk
from barnabas.protocol.api_keys import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.reference import layout

REQUEST: Final = "request"
RESPONSE: Final = "response"
_KEY_AND_VERSION = struct.Struct(">hh")
_INT16 = struct.Struct(">h")


@dataclass(slots=True)
class Frame:
    """One frame behind its size. `base` is where its first byte lies in the input, or in the stream of a connection.

    `note` says what a reader should know of it that is no error. `connection` and `time` are set in a capture.
    """

    direction: str
    data: bytes
    base: int = 0
    api: ApiKey | None = None
    version: int | None = None
    correlation_id: int | None = None
    header: Node | None = None
    body: Node | None = None
    wrongs: list[Wrong] = field(default_factory=list)
    note: str = ""
    connection: str = ""
    time: float | None = None

    @property
    def title(self) -> str:
        """`Fetch v13`, as far as it is known."""
        name = "unknown API" if self.api is None else api_name(self.api)
        return name if self.version is None else f"{name} v{self.version}"


def decode_request(data: bytes, base: int = 0, *, with_records: bool = False) -> Frame:
    """A request; its header says which."""
    frame = Frame(REQUEST, data, base)
    if len(data) < _KEY_AND_VERSION.size:
        found = f"{len(data)} bytes and then the end"
        frame.wrongs.append(Wrong(0, "header", "an API key and a version of 2 bytes each", found))
        return frame
    key, version = _KEY_AND_VERSION.unpack_from(data)
    frame.version = version
    try:
        frame.api = ApiKey(key)
    except ValueError:
        frame.wrongs.append(Wrong(0, "header.request_api_key", "an API key of Kafka 4.3", str(key)))
        return frame
    header = walk(layout(RequestHeader, request_header_version(key, version)), data, 0, "header")
    versions = request_type(key).versions
    if not _take_header(frame, header):
        return frame
    if not versions.has(version):
        expected = f"a version of {api_name(frame.api)} that Kafka 4.3 has: {versions}"
        frame.wrongs.append(Wrong(2, "header.request_api_version", expected, str(version)))
        return frame
    body = walk(layout(request_type(key), version), data, header.end, "body", with_records=with_records)
    return _with_body(frame, body)


def decode_response(
    data: bytes, api: ApiKey, version: int, base: int = 0, *, with_records: bool = False
) -> Frame:
    """A response to a request of that API and version, which has to be one that exists."""
    frame = Frame(RESPONSE, data, base, api, version)
    header = walk(layout(ResponseHeader, response_header_version(api, version)), data, 0, "header")
    if not _take_header(frame, header):
        return frame
    if _is_refusal(data, api, version, header.end):
        frame.version = version = 0
        frame.note = "the broker does not know the request's version, and answers in version 0 (KIP-511)"
    shape = layout(response_type(api), version)
    body = walk(shape, data, header.end, "body", with_records=with_records, may_be_cut=api is ApiKey.FETCH)
    return _with_body(frame, body)


def _is_refusal(data: bytes, api: ApiKey, version: int, at: int) -> bool:
    """Whether this is an answer to an ApiVersions in a version that the broker does not have."""
    if api is not ApiKey.API_VERSIONS or version == 0 or len(data) < at + _INT16.size:
        return False
    return bool(_INT16.unpack_from(data, at)[0] == ErrorCode.UNSUPPORTED_VERSION)


def _take_header(frame: Frame, header: Walk) -> bool:
    """Whether it can be read on behind the header."""
    frame.header = header.root
    for wrong in header.wrongs:
        frame.wrongs.append(Wrong(wrong.offset, f"header.{wrong.path}", wrong.expected, wrong.found))
    for node in header.root.children or ():
        if node.name == "correlation_id" and node.value is not None:
            frame.correlation_id = node.value
    return header.is_whole


def _with_body(frame: Frame, body: Walk) -> Frame:
    frame.body = body.root
    frame.wrongs += body.wrongs
    if body.is_whole and body.end < len(frame.data):
        found = f"{len(frame.data) - body.end} bytes more"
        frame.wrongs.append(Wrong(body.end, "(behind the message)", f"the end of {frame.title}", found))
    return frame
