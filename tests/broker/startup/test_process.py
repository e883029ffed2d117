"""The process of a broker: signals, what it prints, how the interpreter is tuned, and exit codes."""

from __future__ import annotations

import gc
import io
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.broker import compiled
from barnabas.broker.startup import process
from barnabas.broker.startup.exit_codes import EXIT_FAILED, EXIT_STOPPED, EXIT_USAGE
from barnabas.broker.startup.process import run
from barnabas.broker.startup.server import Server
from barnabas.config.broker_config import BrokerConfig
from tests.broker.running_server import LOCALHOST, config_of

MARKER = ".kafka_cleanshutdown"
PLAINTEXT = "PLAINTEXT"


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind((LOCALHOST, 0))
        other.listen()
        yield other.getsockname()[1]


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
        async def start(self) -> None:
            signal.raise_signal(number)
            await super().start()

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(process, "Server", Starting)
    with pytest.raises(SystemExit) as ended:
        run(config_of(tmp_path))
    assert ended.value.code == 128 + number
    assert "ready" not in capsys.readouterr().out
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("_process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_member_gives_its_start_up_in_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    taken_port: int,
    number: signal.Signals,
) -> None:
    """It waits for a controller that never answers."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    class Starting(Server):
        async def start(self) -> None:
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGINT)
            await super().start()

    monkeypatch.setattr(process, "Server", Starting)
    config = config_of(
        tmp_path,
        process_roles="broker",
        node_id="7",
        controller_quorum_bootstrap_servers=f"{LOCALHOST}:{taken_port}",
        controller_listener_names="CONTROLLER",
        barnabas_log_format="text",
    )
    assert run(config) == EXIT_STOPPED
    assert codes == [128 + signal.SIGINT], "the second ends the process there and then"
    shown = capsys.readouterr()
    assert f"giving the start up on {number.name}; once more ends it at once" in shown.err
    assert "ready" not in shown.out
    assert "cannot start" not in shown.err


@pytest.mark.usefixtures("_process")
def test_the_interpreter_is_tuned_for_a_loop_that_nobody_holds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_line(monkeypatch, config_of(tmp_path), signal.SIGTERM)
    assert sys.getswitchinterval() == pytest.approx(process.SWITCH_INTERVAL_S)
    assert gc.isenabled()
    assert gc.get_threshold()[0] == process.YOUNG_OBJECTS
    at_the_start = gc.get_freeze_count()
    assert at_the_start > 0
    came = [[number] for number in range(100)]
    process._freeze_again()
    assert gc.get_freeze_count() >= at_the_start + len(came)


@pytest.mark.usefixtures("_process")
def test_where_metrics_are_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, barnabas_http_port="0", barnabas_http_host=LOCALHOST)
    assert f"metrics on http://{LOCALHOST}:" in ready_line(monkeypatch, config, signal.SIGTERM)


@pytest.mark.parametrize(("system", "limit"), [("linux", sys.maxsize), ("darwin", 10_240)])
def test_as_many_files_may_be_open_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, system: str, limit: int
) -> None:
    """macOS says that there is no limit, and refuses to have none."""
    hard = sys.maxsize
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, hard))
    monkeypatch.setattr("resource.setrlimit", lambda _, wanted: limits.append(wanted))
    process._raise_open_files_limit()
    assert limits == [(limit, hard)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.usefixtures("_process")
def test_a_ready_line_that_cannot_be_written_keeps_no_broker_from_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when standard output goes to a file on a disk that is full."""
    said = process._say_it_is_ready

    def say_and_stop(line: str) -> None:
        said(line)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(process, "_say_it_is_ready", say_and_stop)
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
        async def start(self) -> None:
            await super().start()
            started.append(self)

    monkeypatch.setattr(process, "Server", Remembered)
    terminal = Terminal(lambda: started[0].components.replica_manager.log_dir_failed(str(tmp_path)))
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
    process._warn_of_stale_builds()
    assert not caplog.messages
    monkeypatch.setattr(compiled, "stale", lambda: ["broker/request.py"])
    process._warn_of_stale_builds()
    assert caplog.messages == ["changed since they were compiled, so an older form runs: broker/request.py"]
    monkeypatch.setattr(compiled, "form", lambda: "interpreted")
    process._warn_of_stale_builds()
    assert len(caplog.messages) == 1


# ---- a node that is alone


def test_a_node_that_is_alone_loads_nothing_of_a_cluster() -> None:
    """It would cost its start and its memory."""
    rooms = (
        "node_client",
        "membership",
        "replica.isr",
        "replica.fetcher",
        "replica.roles",
        "startup.cluster_",
        "startup.member_",
    )
    script = (
        "import sys, barnabas.broker.startup.process; "
        f"print([name for name in sys.modules if any(room in name for room in {rooms!r})])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
