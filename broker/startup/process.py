"""The process of a broker: signals, garbage collection, the ready line, and the exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from barnabas.broker import compiled
from barnabas.broker.http.server import HttpServer
from barnabas.broker.logging import setup as log_setup
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.network.listeners import ListenError
from barnabas.broker.startup.exit_codes import (
    EXIT_FAILED,
    EXIT_STOPPED,
    EXIT_USAGE,
    StartFailedError,
    StartInterruptedError,
)
from barnabas.broker.startup.server import Server
from barnabas.broker.version import VERSION
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_HTTP_HOST, BARNABAS_LOG_FORMAT, BARNABAS_LOG_LEVEL
from barnabas.config.layers import InvalidConfigError
from barnabas.config.messages import MessageKind
from barnabas.config.replicas import clamp_replication
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import StorageError

logger = logging.getLogger("barnabas.server")

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP comes when the terminal goes; under nohup it is ignored."""
SETTLING_S: Final = 0.1
"""After the start, the first responses to waiting clients come before work that can wait for so long."""
YOUNG_OBJECTS: Final = 5000
"""New objects that trigger a collection. Requests leave no cycles, so it finds next to nothing and may be rare."""
OLDER_OBJECTS: Final = (10, 10)
"""Python's own numbers; the start of a member has others."""
WARM_S: Final = 60.0
"""After this time the objects of the first requests and scrapes exist: codecs, libraries."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread beside the loop may keep the interpreter while the loop wants it. With Python's own 5 ms each call
to the system costs the loop up to that, while metrics are rendered or a coordinator loads."""
_MACOS_OPEN_MAX: Final = 10_240
"""OPEN_MAX: macOS has a hard limit of "unlimited", and refuses a soft limit of that."""
_CANNOT_START: Final = (ListenError, StorageError, MetadataLogError, StartFailedError, OSError)


def run(config: BrokerConfig) -> int:
    """Serves until a signal comes; returns the exit code."""
    log_setup.configure(config[BARNABAS_LOG_LEVEL], sys.stderr, as_json=_as_json(config[BARNABAS_LOG_FORMAT]))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    start_lines = log_setup.StartLines()
    _log_config_messages(config)
    _raise_open_files_limit()
    with _ended_by_signals(), asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(_serve(config, start_lines))


def _new_loop() -> asyncio.AbstractEventLoop:
    """A uvloop where it is installed, else asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(config: BrokerConfig, start_lines: log_setup.StartLines) -> int:
    loop = asyncio.get_running_loop()
    try:
        server = Server(config, loop, RealEnv())
        stopping = await _start(server, loop)
    except StartInterruptedError:
        start_lines.end()
        return EXIT_STOPPED
    except InvalidConfigError as error:
        start_lines.end()
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except _CANNOT_START as error:
        start_lines.end()
        print(f"Barnabas cannot start: {error}", file=sys.stderr)
        return EXIT_FAILED
    http = server.observers.serve_http(server)
    _say_it_is_ready(_ready_line(server, http))
    gc.freeze()  # these objects stay; the collector need not visit them again and again
    gc.set_threshold(YOUNG_OBJECTS, *OLDER_OBJECTS)
    gc.enable()
    loop.call_later(SETTLING_S, start_lines.end)
    loop.call_later(SETTLING_S, _warn_of_stale_builds)
    loop.call_later(WARM_S, _freeze_again)
    endings: list[asyncio.Future[Any]] = [stopping, server.failed]
    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
    start_lines.end()
    if server.failed.done():
        logger.error("stopping: %s", server.failed.result())
    else:
        logger.info("stopping on %s; once more stops at once", stopping.result().name)
    await server.stop()
    if http is not None:
        http.close()
    return EXIT_FAILED if server.failed.done() else EXIT_STOPPED


async def _start(server: Server, loop: asyncio.AbstractEventLoop) -> asyncio.Future[signal.Signals]:
    """Starts the server; what is returned completes with the first stop signal.

    A start that waits for nobody else is ended by a signal there and then. A member of a cluster gives it up in order.
    """
    if not server.config.is_member:
        await server.start()
        return _catch_signals(loop)
    stopping = _catch_signals(loop)

    def give_up(of: asyncio.Future[signal.Signals]) -> None:
        logger.info("giving the start up on %s; once more ends it at once", of.result().name)
        server.interrupt_start()

    stopping.add_done_callback(give_up)
    await server.start()
    stopping.remove_done_callback(give_up)
    return stopping


def _warn_of_stale_builds() -> None:
    """In a checkout, where the compiled modules may be older than the sources."""
    sources = compiled.stale()
    if sources and compiled.form() != "interpreted":
        logger.warning("changed since they were compiled, so an older form runs: %s", ", ".join(sources))


def _freeze_again() -> None:
    """Freezes the objects of the first requests too: full collections visit all others while the loop waits."""
    gc.collect()
    gc.freeze()


def _stop_signals() -> list[signal.Signals]:
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in STOP_SIGNALS if not (is_nohup and number is signal.SIGHUP)]


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Ends the process at any stop signal until they are caught: no client is served yet, and a start may take long.

    The first process of a container would ignore them otherwise, and asyncio would finish the start first.
    """

    def end(number: int, _: object) -> None:
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in _stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _catch_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Future[signal.Signals]:
    """Completes with the first stop signal; the second ends the process at once.

    Except for SIGHUP: when a terminal closes, both its shell and the system send it.
    """
    stopping: asyncio.Future[signal.Signals] = loop.create_future()

    def caught(number: signal.Signals) -> None:
        if not stopping.done():
            stopping.set_result(number)
        elif number is not signal.SIGHUP:
            os._exit(128 + number)

    for number in _stop_signals():
        loop.add_signal_handler(number, caught, number)
    return stopping


def _say_it_is_ready(line: str) -> None:
    """Prints the ready line; when standard output is closed or its disk is full, a log line has it."""
    try:
        print(line, flush=True)
    except OSError as error:
        logger.warning("%s; standard output cannot be written to: %s", line, error)
        # What could not be written is tried again at the end of the process, which would then end with an error.
        with open(os.devnull, "wb") as nowhere, suppress(OSError):
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _ready_line(server: Server, http: HttpServer | None) -> str:
    addresses = ", ".join(
        f"{listener.host or '0.0.0.0'}:{server.ports[listener.name]}"
        for listener in server.config.listeners
        if listener.name in server.ports  # one that was set while a broker ran may have lost its port
    )
    data = ", ".join(os.path.abspath(path) for path in server.config.log_dirs)
    metrics = ""
    if http is not None:
        scheme = "http" if server.http_security.tls is None else "https"
        metrics = (
            f", metrics on {scheme}://{server.config[BARNABAS_HTTP_HOST] or '0.0.0.0'}:{http.port}/metrics"
        )
    return (
        f"Barnabas {VERSION} is ready on {addresses}, data in {data}{metrics}, {compiled.form_at_start()}, "
        f"started in {_seconds_since_spawn():.2f} s"
    )


def _seconds_since_spawn() -> float:
    """Seconds since the process began, before Python could read a clock."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            started_ticks = int(file.read().rpartition(")")[2].split()[19])
    except OSError:  # not Linux
        return time.process_time()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def _as_json(log_format: str) -> bool | None:
    return None if log_format == "auto" else log_format == "json"


def _log_config_messages(config: BrokerConfig) -> None:
    """Logs a line for each message about the configuration, and one for all keys without effect."""
    for line in clamp_replication(config):
        logger.info("%s", line)
    inert = []
    for message in config.messages:
        if message.kind is MessageKind.INERT:
            inert.append(message.key)
        else:
            logger.warning("%s", message)
    if inert:
        logger.info(
            "accepted without effect (`barnabas config check` says why): %s", ", ".join(sorted(inert))
        )


def _raise_open_files_limit() -> None:
    """Every log has open files; the soft limit is often far below what the system allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, _MACOS_OPEN_MAX) if sys.platform == "darwin" else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
