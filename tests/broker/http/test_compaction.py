"""Compaction over HTTP: paths, methods, statuses, and who is kept out."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.compaction.status import Compaction
from barnabas.broker.http.server import HttpServer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.config.broker_config import BrokerConfig
from tests.broker.compaction.cleaner_harness import CleanerHarness


class Served:
    """A broker's cleaner behind an HTTP port."""

    def __init__(self, directory: Path) -> None:
        self.house = CleanerHarness(directory)
        manager, controller = self.house.broker.log_manager, self.house.broker.controller
        compaction = Compaction(self.house.cleaner, manager, lambda: controller.image)
        self.http = HttpServer(
            asyncio.get_running_loop(), BrokerConfig(), Metrics(), lambda: None, compaction
        )
        self.port = self.http.bind("127.0.0.1", 0)
        self.http.start()

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, *, body: bytes | None = None
    ) -> tuple[int, Any]:
        return await asyncio.to_thread(self._ask, method, path, body, headers or {})

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, method=method, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    yield served
    served.http.close()
    served.house.broker.kill()


async def test_a_topic_is_compacted_on_request(served: Served) -> None:
    served.house.fill(3)
    status, answer = await served.ask("POST", "/topics/t/compact")
    assert status == 202
    assert answer["topic"] == "t"
    assert answer["partitions"][0]["state"] == "queued"
    assert served.house.log.segment_count == 2
    status, answer = await served.ask("GET", "/topics/t/compact")
    assert (status, answer["partitions"][0]["state"]) == (200, "queued")


async def test_a_body_is_taken_and_not_looked_at(served: Served) -> None:
    assert (await served.ask("POST", "/topics/t/compact", body=b"{}"))[0] == 202


async def test_what_goes_on(served: Served) -> None:
    served.house.begin()
    status, answer = await served.ask("GET", "/compaction")
    assert status == 200
    assert [(it["topic"], it["state"]) for it in answer["running"]] == [("t", "cleaning")]


async def test_refusals(served: Served) -> None:
    served.house.broker.create_topic("d")
    assert (await served.ask("POST", "/topics/none/compact"))[0] == 404
    assert (await served.ask("GET", "/topics/none/compact"))[0] == 404
    status, answer = await served.ask("POST", "/topics/d/compact")
    assert status == 409
    assert "cleanup.policy" in answer["error"]
    served.house.log.fail("a test says so")
    assert (await served.ask("POST", "/topics/t/compact"))[0] == 503
    assert (await served.ask("DELETE", "/topics/t/compact"))[0] == 405
    assert (await served.ask("POST", "/compaction"))[0] == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
async def test_a_web_page_may_not(served: Served, headers: dict[str, str]) -> None:
    served.house.fill(3)
    status, answer = await served.ask("POST", "/topics/t/compact", headers)
    assert (status, answer) == (403, {"error": "not for web pages"})
    assert served.house.log.segment_count == 1
    assert (await served.ask("GET", "/topics/t/compact", headers))[0] == 200


async def test_who_types_the_address_is_no_web_page(served: Served) -> None:
    assert (await served.ask("POST", "/topics/t/compact", {"Sec-Fetch-Site": "none"}))[0] == 202


@pytest.mark.parametrize("path", ["/topics//compact", "/topics/t/compact/", "/topics/t", "/x/t/compact"])
async def test_other_paths_are_not_there(served: Served, path: str) -> None:
    def ask() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{served.port}{path}", timeout=60) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert await asyncio.to_thread(ask) == 404


async def test_a_server_without_a_cleaner_has_none_of_it() -> None:
    http = HttpServer(asyncio.get_running_loop(), BrokerConfig(), Metrics(), lambda: None)
    port = http.bind("127.0.0.1", 0)
    http.start()

    def ask() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/compaction", timeout=60):
            pass

    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        await asyncio.to_thread(ask)
    refused.value.close()
    http.close()
