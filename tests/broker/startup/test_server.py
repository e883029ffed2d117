"""A broker put together, started, asked and stopped, with real sockets and files."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import compiled
from broker.controller.embedded import Decision
from broker.network.listeners import ListenError
from broker.startup import server as server_module
from broker.startup.server import EXIT_FAILED, EXIT_STOPPED, EXIT_USAGE, Server, run
from config.broker_config import BrokerConfig
from config.layers import InvalidConfigError
from protocol.codec import encode
from protocol.messages.fetch import FetchRequest
from protocol.messages.topic_records import PartitionChangeRecord
from storage.errors import LogDirLockedError
from tests.broker.logs import batch
from tests.broker.running_server import LOCALHOST, config_of, connected, new_server, running
from tests.conformance.dialogues.words import fetch, fetch_topic, partition, produce
from tests.support import raw

MARKER = ".kafka_cleanshutdown"
PLAINTEXT = "PLAINTEXT"


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind((LOCALHOST, 0))
        other.listen()
        yield other.getsockname()[1]


# ---- start and stop


async def test_a_server_that_has_started_answers(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server, connected(server.ports[PLAINTEXT]) as client:
        assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1
        assert not server.is_stopping
        assert not (tmp_path / MARKER).exists()


async def test_every_listener_gets_its_port(tmp_path: Path) -> None:
    settings = {
        "listeners": f"PLAINTEXT://{LOCALHOST}:0,INSIDE://{LOCALHOST}:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    }
    async with running(config_of(tmp_path, **settings)) as server:
        assert len(set(server.ports.values())) == 2
        for port in server.ports.values():
            async with connected(port) as client:
                assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1


async def test_a_stop_leaves_the_marker_and_closes_everything(tmp_path: Path) -> None:
    server = new_server(config_of(tmp_path))
    server.start()
    async with connected(server.ports[PLAINTEXT]) as client:
        assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1
        await server.stop()
        assert server.is_stopping
        assert await client.is_closed()
    assert (tmp_path / MARKER).exists()
    with pytest.raises(ConnectionRefusedError):
        async with connected(server.ports[PLAINTEXT]):
            pass


async def test_what_was_created_is_there_after_a_stop(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server, connected(server.ports[PLAINTEXT]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        topic_id = server.controller.image.topics["t"].topic_id
    async with running(config_of(tmp_path)) as again:
        assert again.controller.image.topics["t"].topic_id == topic_id
        assert again.replica_manager.partition("t", 0).leader_epoch == 2  # resigned, elected again
        assert again.ports[PLAINTEXT]


async def test_a_stop_answers_who_waits_for_records(tmp_path: Path) -> None:
    server = new_server(config_of(tmp_path))
    server.start()
    async with connected(server.ports[PLAINTEXT]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        client.send(fetch_request("t", max_wait_ms=600_000))
        while not server.replica_manager.fetch_purgatory.num_delayed:  # noqa: ASYNC110 (turns of the loop, no time)
            await asyncio.sleep(0)
        await server.stop()
        assert (await client.receive())[:4] == (7).to_bytes(4, "big")


async def test_who_cannot_be_answered_in_time_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A producer who waits for a replica that does not come."""
    monkeypatch.setattr(server_module, "DRAIN_TIMEOUT_S", 0.0)
    server = new_server(config_of(tmp_path))
    server.start()
    async with connected(server.ports[PLAINTEXT]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        topic_id = server.controller.image.topics["t"].topic_id
        absent = PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1, 2])
        changed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        server.controller.submit(lambda _: Decision(True, [absent]), lambda _: False).add_done_callback(
            changed.set_result
        )
        assert await changed
        client.send(raw.frame(raw.header_v1(raw.PRODUCE, 8, 7) + encode(produce("t", batch("a")), 8)))
        while not server.replica_manager.produce_purgatory.num_delayed:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0)
        await server.stop()
        assert await client.is_closed()
    assert caplog.messages == ["1 connections did not finish within 0 s"]
    assert (tmp_path / MARKER).exists()


def fetch_request(topic: str, max_wait_ms: int) -> bytes:
    """Fetch v11 with the correlation id 7."""
    request: FetchRequest = fetch(fetch_topic(topic, [partition()]), max_wait_ms=max_wait_ms)
    return raw.frame(raw.header_v1(raw.FETCH, 11, 7) + encode(request, 11))


async def test_an_advertised_address_is_told_and_another_left_to_the_client(tmp_path: Path) -> None:
    advertised = config_of(tmp_path / "a", advertised_listeners="PLAINTEXT://kafka.example:19092")
    async with running(advertised) as server, connected(server.ports[PLAINTEXT]) as client:
        assert b"kafka.example" in await client.ask(raw.metadata_request())
    async with running(config_of(tmp_path / "b")) as server, connected(server.ports[PLAINTEXT]) as client:
        answer = await client.ask(raw.metadata_request())
        assert raw.string(LOCALHOST) + server.ports[PLAINTEXT].to_bytes(4, "big") in answer


# ---- what keeps it from starting


async def test_a_directory_belongs_to_one_server(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as first:
        second = new_server(config_of(tmp_path))
        with pytest.raises(LogDirLockedError):
            second.start()
        with pytest.raises(ConnectionRefusedError):
            async with connected(second.ports[PLAINTEXT]):
                pass
        async with connected(first.ports[PLAINTEXT]) as client:
            assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1


async def test_an_address_that_is_taken(tmp_path: Path, taken_port: int) -> None:
    server = new_server(config_of(tmp_path / "data", listeners=f"PLAINTEXT://{LOCALHOST}:{taken_port}"))
    with pytest.raises(ListenError, match=str(taken_port)):
        server.start()
    assert not (tmp_path / "data").exists()


async def test_a_node_id_that_is_not_the_directorys(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, node_id="3")):
        pass
    with pytest.raises(InvalidConfigError):
        new_server(config_of(tmp_path, node_id="4")).start()


# ---- failing disks


async def test_without_a_log_directory_left_the_server_has_failed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    async with running(config_of(f"{one},{other}")) as server:
        assert server.storage.metadata_dir == one
        server.replica_manager.log_dir_failed(other)
        assert not server.failed.done()
        server.replica_manager.log_dir_failed(one)
        assert server.failed.done()
        assert one in server.failed.result()
        server.replica_manager.log_dir_failed(one)  # it is not told twice


async def test_without_the_directory_of_the_metadata_the_server_has_failed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    async with running(config_of(f"{one},{other}")) as server:
        server.replica_manager.log_dir_failed(one)
        assert "metadata" in server.failed.result()


# ---- the process around it


class Terminal(io.StringIO):
    """Standard output, whose reader does something as soon as the broker says that it is ready."""

    def __init__(self, when_ready: Callable[[], object]) -> None:
        super().__init__()
        self._when_ready = when_ready

    def write(self, text: str) -> int:
        written = super().write(text)
        if " is ready on " in text:
            self._when_ready()
        return written


@pytest.fixture
def _process() -> Iterator[None]:
    """What a broker does to the process that it has for itself is undone."""
    root, ours = logging.getLogger(), logging.getLogger("barnabas")
    before = root.handlers[:], root.level, ours.level
    of_hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run with nohup
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    signal.signal(signal.SIGHUP, of_hangup)
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def ready_line(monkeypatch: pytest.MonkeyPatch, config: BrokerConfig, number: signal.Signals) -> str:
    """Runs a broker until it is ready, stops it with a signal, and returns what it printed."""
    terminal = Terminal(lambda: signal.raise_signal(number))
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run(config) == EXIT_STOPPED
    return terminal.getvalue()


@pytest.mark.usefixtures("_process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_broker_in_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    config = config_of(tmp_path, barnabas_log_format="text", num_io_threads="9", log_dirz="x")
    line = ready_line(monkeypatch, config, number)
    assert f"is ready on {LOCALHOST}:" in line
    assert f"data in {tmp_path}" in line
    assert "metrics on" not in line
    assert f", {compiled.form()}, started in " in line
    assert (tmp_path / MARKER).exists()
    log = capsys.readouterr().err
    assert f"stopping on {number.name}" in log
    assert "log.dirz is not a configuration key" in log
    assert "accepted without effect" in log
    assert "num.io.threads" in log


@pytest.mark.usefixtures("_process")
def test_with_nohup_a_broker_outlives_its_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def terminal_goes() -> None:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)  # would be the second and end the process

    monkeypatch.setattr(sys, "stdout", Terminal(terminal_goes))
    assert run(config_of(tmp_path)) == EXIT_STOPPED
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.usefixtures("_process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_start_ends_the_process_there_and_then(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    """As the first process of a container, too, for which a signal does nothing unless it is caught."""
    before = signal.getsignal(number)

    class Starting(Server):
        def start(self) -> None:
            signal.raise_signal(number)
            super().start()

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(server_module, "Server", Starting)
    with pytest.raises(SystemExit) as ended:
        run(config_of(tmp_path))
    assert ended.value.code == 128 + number
    assert "ready" not in capsys.readouterr().out
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("_process")
def test_the_interpreter_is_tuned_for_a_loop_that_nobody_holds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_line(monkeypatch, config_of(tmp_path), signal.SIGTERM)
    assert sys.getswitchinterval() == pytest.approx(server_module.SWITCH_INTERVAL_S)
    assert gc.isenabled()
    assert gc.get_threshold()[0] == server_module.YOUNG_OBJECTS
    at_the_start = gc.get_freeze_count()
    assert at_the_start > 0
    came = [[number] for number in range(100)]
    server_module._freeze_what_came()
    assert gc.get_freeze_count() >= at_the_start + len(came)


@pytest.mark.usefixtures("_process")
def test_where_metrics_are_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, barnabas_http_port="0", barnabas_http_host=LOCALHOST)
    assert f"metrics on http://{LOCALHOST}:" in ready_line(monkeypatch, config, signal.SIGTERM)


@pytest.mark.usefixtures("_process")
def test_a_ready_line_that_cannot_be_written_keeps_no_broker_from_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when standard output goes to a file on a disk that is full."""
    said = server_module._say_it_is_ready

    def say_and_stop(line: str) -> None:
        said(line)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(server_module, "_say_it_is_ready", say_and_stop)
    with Path("/dev/full").open("w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert run(config_of(tmp_path / "data", barnabas_log_format="text")) == EXIT_STOPPED
        stdout.flush()
    assert (tmp_path / "data" / MARKER).exists()
    assert "is ready on" in capsys.readouterr().err


@pytest.mark.usefixtures("_process")
def test_a_broker_whose_disks_have_failed_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Server] = []

    class Remembered(Server):
        def start(self) -> None:
            super().start()
            started.append(self)

    monkeypatch.setattr(server_module, "Server", Remembered)
    terminal = Terminal(lambda: started[0].replica_manager.log_dir_failed(str(tmp_path)))
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run(config_of(tmp_path)) == EXIT_FAILED
    assert "has failed" in capsys.readouterr().err


@pytest.mark.usefixtures("_process")
def test_why_a_broker_cannot_start_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], taken_port: int
) -> None:
    assert run(config_of(tmp_path, listeners=f"PLAINTEXT://{LOCALHOST}:{taken_port}")) == EXIT_FAILED
    assert f"Barnabas cannot start: cannot listen on {LOCALHOST}:{taken_port}" in capsys.readouterr().err


@pytest.mark.usefixtures("_process")
def test_a_node_id_that_is_not_the_directorys_is_the_configurations_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ready_line(monkeypatch, config_of(tmp_path, node_id="3"), signal.SIGTERM)
    assert run(config_of(tmp_path, node_id="4")) == EXIT_USAGE
    assert "node.id" in capsys.readouterr().err


@pytest.mark.usefixtures("_process")
def test_without_uvloop_it_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert "is ready on" in ready_line(monkeypatch, config_of(tmp_path), signal.SIGTERM)


@pytest.mark.usefixtures("_process")
def test_the_second_signal_ends_the_process_there_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake end returns, so that the stop which the first signal began goes on."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    def twice() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)  # which is not as urgent
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys, "stdout", Terminal(twice))
    assert run(config_of(tmp_path)) == EXIT_STOPPED
    assert codes == [128 + signal.SIGINT]


@pytest.mark.usefixtures("_process")
def test_factors_that_a_single_broker_cannot_have_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path, barnabas_log_format="text", default_replication_factor="3")
    ready_line(monkeypatch, config, signal.SIGTERM)
    assert "default.replication.factor" in capsys.readouterr().err


def test_a_checkout_with_an_older_build_is_told_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "stale", list)
    monkeypatch.setattr(compiled, "form", lambda: "compiled")
    server_module._warn_of_stale_builds()
    assert not caplog.messages
    monkeypatch.setattr(compiled, "stale", lambda: ["broker/request.py"])
    server_module._warn_of_stale_builds()
    assert caplog.messages == ["changed since they were compiled, so what runs is older: broker/request.py"]
    monkeypatch.setattr(compiled, "form", lambda: "interpreted")
    server_module._warn_of_stale_builds()
    assert len(caplog.messages) == 1
