"""`barnabas compact`: requests the compaction of a topic from a running broker, over its HTTP port."""

from __future__ import annotations

import base64
import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import click

from barnabas.cli.exit_codes import EXIT_FAILED

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from rich.progress import Progress, TaskID

DEFAULT_URL: Final = "http://localhost:9644"
POLL_INTERVAL_S: Final = 0.25
REQUEST_TIMEOUT_S: Final = 30.0
BUSY: Final = ("queued", "starting", "cleaning", "swapping in")

Partition = dict[str, Any]


class BrokerError(Exception):
    """The broker cannot be reached, or rejects the request."""


class Broker(NamedTuple):
    """How a broker's HTTP port is asked: the page, whom it lets in, whom the client trusts."""

    page: str
    authorization: str | None = None
    context: ssl.SSLContext | None = None

    def ask(self, method: str) -> dict[str, Any]:
        """The broker's response. Raises BrokerError."""
        request = urllib.request.Request(self.page, method=method, data=b"" if method == "POST" else None)
        if self.authorization is not None:
            request.add_unredirected_header("Authorization", self.authorization)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S, context=self.context) as reply:
                answer: dict[str, Any] = json.load(reply)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise BrokerError(_reason(error)) from error
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise BrokerError(f"No broker answers at {self.page}: {reason}") from error


_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Have a running broker compact a topic now.")
@click.argument("topic")
@click.option("--wait", is_flag=True, help="Show progress, and return when all partitions are compacted.")
@click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    envvar="BARNABAS_URL",
    show_envvar=True,
    help="The broker's HTTP port: barnabas.http.host and barnabas.http.port.",
)
@click.option("--user", help="A user of barnabas.http.sasl.jaas.config, where the port asks for a login.")
@click.option("--password-file", type=_FILE, help="A file whose first line is the user's password.")
@click.option(
    "--ca-file", type=_FILE, help="For https: certificates to trust, as PEM; by default those of the system."
)
def compact(
    topic: str, *, wait: bool, url: str, user: str | None, password_file: Path | None, ca_file: Path | None
) -> None:
    """Have a running broker compact TOPIC now, regardless of min.cleanable.dirty.ratio.

    The active segments are rolled first, so that everything written so far can be compacted; records younger than
    min.compaction.lag.ms and open transactions are not compacted. Without new records since the last compaction the log
    is compacted again, which removes tombstones older than delete.retention.ms.

    \b
    Exit codes:
      0  done, or without --wait: the broker has accepted the request
      1  the broker cannot be reached or rejects the request, or a partition could not be compacted
      2  the command line is wrong
    """
    if (user is None) is not (password_file is None):
        raise click.UsageError("--user and --password-file need each other")
    page = f"{url.rstrip('/')}/topics/{quote(topic, safe='')}/compact"
    broker = Broker(page, _authorization(user, password_file), _context(ca_file))
    try:
        partitions = broker.ask("POST")["partitions"]
        if not wait:
            click.echo(f"{topic}: {len(partitions)} partitions will be compacted")
            return
        before = {partition["partition"]: partition["bytes"] for partition in partitions}
        partitions = watch(topic, lambda: broker.ask("GET")["partitions"])
    except BrokerError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_FAILED)
    sys.exit(report(topic, partitions, before))


def _authorization(user: str | None, password_file: Path | None) -> str | None:
    if user is None or password_file is None:
        return None
    password = password_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _context(ca_file: Path | None) -> ssl.SSLContext | None:
    """None: what urllib does by itself, which trusts the system's certificates."""
    if ca_file is None:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (ssl.SSLError, OSError) as error:
        raise click.UsageError(
            f"--ca-file {ca_file} has no certificates that can be read: {error}"
        ) from error


def _reason(error: urllib.error.HTTPError) -> str:
    body = error.read().decode(errors="replace")
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}: {body.strip()}"


def watch(topic: str, partitions_now: Callable[[], list[Partition]]) -> list[Partition]:
    """Shows a bar for each partition until all are idle; returns their last states."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[state]}"),
    )
    tasks: dict[int, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:
        while True:
            partitions = partitions_now()
            for partition in partitions:
                _show(progress, tasks, topic, partition)
            if not any(partition["state"] in BUSY for partition in partitions):
                return partitions
            time.sleep(POLL_INTERVAL_S)


def _show(progress: Progress, tasks: dict[int, TaskID], topic: str, partition: Partition) -> None:
    number, state = partition["partition"], partition["state"]
    if number not in tasks:
        tasks[number] = progress.add_task(f"{topic}-{number}", total=100, state=state)
    progress.update(tasks[number], completed=partition["percent"], state=state)


def report(topic: str, partitions: list[Partition], before: dict[int, int]) -> int:
    """Prints a line for each partition; returns the exit code."""
    failed = False
    for partition in partitions:
        name = f"{topic}-{partition['partition']}"
        if "error" in partition or partition["state"] != "idle":
            failed = True
            click.echo(f"{name}: {partition['state']}: {partition.get('error', 'not compacted')}", err=True)
        else:
            old = before.get(partition["partition"], partition["bytes"])
            click.echo(
                f"{name}: compacted up to offset {partition['compacted_to']}, {old:,} bytes are {partition['bytes']:,}"
            )
    return EXIT_FAILED if failed else 0
