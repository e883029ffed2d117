"""One request or response: its header, its body, and its wrong bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from barnabas.cli.wire.walking import Node, Walk, Wrong, walk
from barnabas.protocol.api_keys import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.reference import StructOf, layout

REQUEST: Final = "request"
RESPONSE: Final = "response"
_KEY_AND_VERSION = struct.Struct(">hh")
_UNSUPPORTED_VERSION = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


@dataclass(slots=True)
class Frame:
    """One frame without its size. `base` is the offset of its first byte in the input, or in a connection's stream.

    `note` is a remark that is not an error. `connection` and `time` are set in a capture.
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
        """`Fetch v13`, as far as API and version are known."""
        name = "unknown API" if self.api is None else self.api.title
        return name if self.version is None else f"{name} v{self.version}"


def decode_request(frame: Frame, *, with_records: bool = False) -> Frame:
    """Decodes a request, whose header says which; returns the frame."""
    data = frame.data
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
    end = _decode_header(frame, layout(RequestHeader, request_header_version(key, version)))
    if end is None:
        return frame
    shape = request_type(key)
    if not shape.versions.has(version):
        expected = f"a version of {frame.api.title} that Kafka 4.3 has: {shape.versions}"
        frame.wrongs.append(Wrong(2, "header.request_api_version", expected, str(version)))
        return frame
    return _decode_body(frame, walk(layout(shape, version), data, end, "body", with_records=with_records))


def decode_response(frame: Frame, *, with_records: bool = False) -> Frame:
    """Decodes a response to a request of the frame's API and version, both of which must exist; returns the frame."""
    assert frame.api is not None
    assert frame.version is not None
    end = _decode_header(frame, layout(ResponseHeader, response_header_version(frame.api, frame.version)))
    if end is None:
        return frame
    if (
        frame.api is ApiKey.API_VERSIONS
        and frame.data[end : end + 2] == _UNSUPPORTED_VERSION
        and frame.version
    ):
        frame.version = 0
        frame.note = "the broker does not have the request's version, and answers in version 0 (KIP-511)"
    shape = layout(response_type(frame.api), frame.version)
    is_fetch = frame.api is ApiKey.FETCH
    return _decode_body(
        frame, walk(shape, frame.data, end, "body", with_records=with_records, may_be_cut=is_fetch)
    )


def _decode_header(frame: Frame, shape: StructOf) -> int | None:
    """Where the header ends; None if it cannot be decoded."""
    header = walk(shape, frame.data, 0, "header")
    frame.header = header.root
    for wrong in header.wrongs:
        frame.wrongs.append(Wrong(wrong.offset, f"header.{wrong.path}", wrong.expected, wrong.found))
    for node in header.root.children or ():
        if node.name == "correlation_id" and node.value is not None:
            frame.correlation_id = node.value
    return header.end if header.is_whole else None


def _decode_body(frame: Frame, body: Walk) -> Frame:
    frame.body = body.root
    frame.wrongs += body.wrongs
    if body.is_whole and body.end < len(frame.data):
        found = f"{len(frame.data) - body.end} bytes more"
        frame.wrongs.append(Wrong(body.end, "(after the message)", f"the end of {frame.title}", found))
    return frame
