"""Tests the registry's client against a small registry."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from google.protobuf import descriptor_pb2

from barnabas.pipeline.decoding.column import decoder_of
from barnabas.pipeline.decoding.errors import RegistryError, SchemaError
from barnabas.pipeline.decoding.registry import HttpGet, Registry
from barnabas.pipeline.decoding.sources import spec_of_subject
from barnabas.pipeline.decoding.spec import DecodingSpec

ORDER = {"schema": '{"type": "record", "name": "Order", "fields": [{"name": "line", "type": "Line"}]}'}
LINE = {"schema": '{"type": "record", "name": "Line", "fields": []}'}


class Answers(dict[str, Any]):
    """The responses by path; counts the requests for each."""

    asked: list[str]

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(answers)
        self.asked = []

    def __call__(self, path: str) -> Any:
        self.asked.append(path)
        return self[path]


def test_known_schemas_are_not_requested_again() -> None:
    answers = Answers({"/schemas/ids/1?format=serialized": LINE})
    registry = Registry("", get=answers)
    assert registry.by_id(1) == registry.by_id(1) == ("avro", (LINE["schema"],))
    assert registry.by_id(2) is registry.by_id(2) is None
    assert [path[13:14] for path in answers.asked] == ["1", "2", "2"]


def test_references_precede_their_schema() -> None:
    order = {**ORDER, "references": [{"name": "Line", "subject": "line/x", "version": 3}]}
    registry = Registry(
        "",
        get=Answers(
            {
                "/subjects/orders-value/versions/latest?format=serialized": order,
                "/subjects/line%2Fx/versions/3?format=serialized&deleted=true": LINE,
            }
        ),
    )
    spec = spec_of_subject("avro", registry, "orders-value")
    assert spec.schema == (LINE["schema"], ORDER["schema"])
    assert spec.registry_framing
    with pytest.raises(SchemaError, match="is avro in the registry, not json"):
        spec_of_subject("json", registry, "orders-value")
    with pytest.raises(SchemaError, match="no version latest of the subject 'x-value'"):
        registry.latest("x-value")


def test_protobuf_files_have_the_names_of_their_imports() -> None:
    """The registry's own file descriptors all have the same other name."""
    line = descriptor_pb2.FileDescriptorProto(name="default", package="shop", syntax="proto3")
    line.message_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        name="default", syntax="proto3", dependency=["shop/line.proto"]
    )
    order.message_type.add(name="Order").field.add(
        name="line", number=1, type=11, type_name=".shop.Line", label=1
    )
    found = {
        "schemaType": "PROTOBUF",
        "schema": base64.b64encode(order.SerializeToString()).decode(),
        "references": [{"name": "shop/line.proto", "subject": "line", "version": 1}],
    }
    answers = {
        "/schemas/ids/1?format=serialized": found,
        "/subjects/line/versions/1?format=serialized&deleted=true": {
            "schemaType": "PROTOBUF",
            "schema": base64.b64encode(line.SerializeToString()).decode(),
        },
    }
    registered = Registry("", get=Answers(answers)).by_id(1)
    assert registered is not None
    decoder = decoder_of(DecodingSpec("protobuf", registered.texts))
    assert decoder.decode(b"\x0a\x03\x0a\x01x") == {"line": {"sku": "x"}}


def test_an_id_with_an_incomplete_schema_is_unknown() -> None:
    """A producer of such an id must not stop an ingest permanently."""
    order = {**ORDER, "references": [{"name": "Line", "subject": "line", "version": 3}]}
    answers = Answers({"/schemas/ids/1?format=serialized": order})
    registry = Registry("", get=answers)
    assert registry.by_id(1) is None
    answers["/subjects/line/versions/3?format=serialized&deleted=true"] = LINE
    assert registry.by_id(1) == ("avro", (LINE["schema"], ORDER["schema"]))


def test_a_response_without_a_schema_is_rejected() -> None:
    registry = Registry(
        "", get=Answers({"/schemas/ids/1?format=serialized": {"schemaType": "XML", "schema": ""}})
    )
    with pytest.raises(RegistryError, match="no schema that is known here"):
        registry.by_id(1)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers 200, 404 as a registry and as another server, 500, 201 without JSON, 202 without an object, and cut
    off."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization", ""))
        status, _, code = self.path.split("/")[-1].partition("-")
        told = json.dumps({"status": int(status), "error_code": int(code) if code.isdigit() else 0}).encode()
        body = {"201": b"<html>", "202": b"[1]"}.get(status, told)
        self.send_response(int(status))
        self.send_header("Content-Length", str(len(body) + 5 * (code == "cut")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
        """Logs nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a server with that handler."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_over_http(address: str) -> None:
    get = HttpGet(f"http://us%40er:p@{address}/base")
    assert get("/200")["status"] == 200
    assert Handler.seen[-1] == "Basic " + base64.b64encode(b"us@er:p").decode()
    for code in (40401, 40402, 40403):
        with pytest.raises(LookupError):
            get(f"/404-{code}")
    for code in (404, 0):  # no such path, or not a registry: the response says nothing about the id
        with pytest.raises(RegistryError, match="answers 404"):
            get(f"/404-{code}")
    with pytest.raises(RegistryError, match="answers 500"):
        get("/500")
    with pytest.raises(RegistryError, match="does not answer"):
        get("/201")
    with pytest.raises(RegistryError, match="does not answer as a registry does"):
        get("/202")
    with pytest.raises(RegistryError, match="does not answer"):
        get("/200-cut")
    with pytest.raises(RegistryError, match="answers 404"):
        get("/404-cut")


def test_a_registry_that_cannot_be_reached() -> None:
    with pytest.raises(RegistryError, match="does not answer"):
        HttpGet("http://127.0.0.1:1")("/x")
    with pytest.raises(ValueError, match="is not the address of a registry"):
        HttpGet("file:///etc/passwd")
