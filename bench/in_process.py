"""A whole broker without sockets in this process, over a real directory, to measure single requests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from barnabas.broker.network.in_flight import Answer
from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Chunk
from barnabas.storage.env import RealEnv
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.fakes import ManualTimer

CLIENT_ID = "bench"


class _Env(RealEnv):
    """The operating system's files and clock; dialogues of the tests would set `ms`."""

    ms = 0


class _Timer(ManualTimer):
    """The real time; timers never fire."""

    def time(self) -> float:
        return time.monotonic()


class BenchBroker:
    """A broker and one connection to it."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.inner = InProcessBroker(directory, settings, env=_Env(), timer=_Timer())
        self._info = self.inner.client(0).info
        self._handle = self.inner.apis.handle

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Returns its id; dots in the names of settings are written as underscores."""
        return self.inner.create_topic(name, partitions, **configs)

    def handle(self, frame: bytes) -> Answer:
        """Handles a frame, as the connection calls it."""
        return self._handle(self._info, frame)

    def answer(self, frame: bytes) -> list[Chunk]:
        """The response to a frame that is answered at once."""
        answer = self.handle(frame)
        assert isinstance(answer, list), answer
        return answer

    def stop(self) -> None:
        """A clean stop."""
        self.inner.stop()


def frame(request: Message, version: int, correlation_id: int = 1) -> bytes:
    """The bytes of a request, without the size."""
    assert request.api_key is not None
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=CLIENT_ID,
    )
    head = encode(header, request_header_version(ApiKey(request.api_key), version))
    return head + encode(request, version)
