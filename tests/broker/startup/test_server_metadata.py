"""A whole server and its metadata log: periodic snapshots, and the end after a failed sync."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.startup.server import Server
from barnabas.protocol.messages.topic_records import ConfigRecord
from barnabas.storage.env import RealEnv, RealFile
from tests.broker.running_server import TIMEOUT_S, config_of, running


class FailingEnv(RealEnv):
    """A disk whose fsync fails on demand."""

    def __init__(self) -> None:
        self.fails = False

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        found = super().open(path, create=create, write=write)
        fd, found.fd = found.fd, -1
        return FailingFile(fd, self)


class FailingFile(RealFile):
    """One of its files."""

    def __init__(self, fd: int, env: FailingEnv) -> None:
        super().__init__(fd)
        self._env = env

    def sync(self) -> None:
        if self._env.fails:
            raise OSError(5, "the disk does not answer")
        super().sync()


async def change(server: Server, value: str) -> str:
    """Sets a cluster default; returns the controller's result."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    record = ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value=value)

    def decide(_image: MetadataImage) -> Decision[str]:
        return Decision("changed", [record])

    server.components.controller.submit(decide, str).add_done_callback(answer.set_result)
    return await asyncio.wait_for(answer, TIMEOUT_S)


async def test_snapshots_are_written_while_the_server_runs(tmp_path: Path) -> None:
    settings = {"metadata_log_max_record_bytes_between_snapshots": "400"}
    async with running(config_of(tmp_path, **settings)) as server:
        for number in range(10):
            assert await change(server, str(10_000 + number)) == "changed"
    directory = tmp_path / "__cluster_metadata-0"
    assert len(list(directory.glob("*.checkpoint"))) >= 1
    assert not list(directory.glob("*.part"))
    async with running(config_of(tmp_path)) as server:
        assert server.storage.image.configs[4, ""]["message.max.bytes"] == "10009"


async def test_a_publisher_that_raises_does_not_hold_up_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(image: MetadataImage, delta: MetadataDelta) -> None:
        raise ValueError(f"offset {image.offset} is unlucky")

    heard: list[int] = []
    async with running(config_of(tmp_path)) as server:
        server.components.publishers.add(stumble)
        server.components.publishers.add(lambda image, delta: heard.append(image.offset))
        assert await change(server, "10001") == "changed"
        assert await change(server, "10002") == "changed"
        assert server.components.publishers.failures == len(heard) == 2
    assert f"offset {heard[-1]} is unlucky" in caplog.text


async def test_an_image_whose_preparation_fails_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(image: MetadataImage, delta: MetadataDelta) -> None:
        raise ValueError("nothing is prepared here")

    async with running(config_of(tmp_path)) as server:
        monkeypatch.setattr(server.components.loader, "_prepare", stumble)
        assert await change(server, "10001") == "changed"
        assert await change(server, "10002") == "changed"


async def test_a_metadata_log_that_failed_ends_the_server(tmp_path: Path) -> None:
    env = FailingEnv()
    server = Server(config_of(tmp_path), asyncio.get_running_loop(), env)
    await server.start()
    try:
        assert await change(server, "10001") == "changed"
        env.fails = True
        assert "does not answer" in await change(server, "10002")
        reason = await asyncio.wait_for(server.failed, TIMEOUT_S)
        assert reason == f"{tmp_path}, the log directory that holds the metadata, has failed"
    finally:
        env.fails = False
        await server.stop()
    async with running(config_of(tmp_path)) as server:
        assert server.storage.image.configs[4, ""]["message.max.bytes"] == "10001"
