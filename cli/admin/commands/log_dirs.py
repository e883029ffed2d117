"""`barnabas log-dirs`: kafka-log-dirs."""

from __future__ import annotations

from barnabas.cli.admin.calls.cluster import describe_cluster
from barnabas.cli.admin.calls.log_dirs import LogDir, ReplicaInDir, describe_log_dirs
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError, NotReachableError
from barnabas.cli.admin.options import ParsedOptions, admin_command, flag, option, refuse, session
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.shapes import LogDirRow

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@admin_command("log-dirs", short_help="Show log directories and the sizes of their replicas.")
@flag("--describe", "Show the log directories.")
@option("--broker-list", "The brokers. Default: all.", metavar="ID,...")
@option("--topic-list", "The topics. Default: all.", metavar="TOPIC,...")
def log_dirs(given: ParsedOptions) -> None:
    """Show the log directories of brokers and the size of each replica in them: kafka-log-dirs.

    \b
    barnabas log-dirs --describe --topic-list orders
    """
    given.need("describe")
    brokers = _brokers(given.text("broker-list") or "")
    topics = {topic for topic in (given.text("topic-list") or "").split(",") if topic}
    with session(given) as (client, out):
        for broker in _existing(client, brokers):
            try:
                with out.working(f"Reading the log directories of broker {broker}"):
                    found = describe_log_dirs(client, broker)
            except NotReachableError as error:
                out.failed(f"no log directories of broker {broker}: {error}")
                continue
            for each in found:
                _show(out, broker, each, topics)


def _brokers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        refuse(f"--broker-list {text}: ids of brokers with commas in between are expected")


def _existing(client: AdminClient, wanted: list[int]) -> list[int]:
    there = [node.id for node in describe_cluster(client).nodes]
    missing = [broker for broker in wanted if broker not in there]
    if missing:
        raise AdminError(
            f"The given brokers do not exist from --broker-list: {_ids(missing)}. "
            f"Current existent brokers: {_ids(there)}"
        )
    return sorted(set(wanted)) or there


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def _show(out: Output, broker: int, found: LogDir, topics: set[str]) -> None:
    replicas = [each for each in found.replicas if not topics or each.partition.topic in topics]
    out.row(_row(broker, found, replicas))
    if found.error is not None:
        out.line(f"broker {broker}: {found.error}")
        return
    size = sum(each.size for each in replicas)
    title = f"broker {broker}: {found.path}: {len(replicas)} replicas, {human_bytes(size)}"
    if found.usable_bytes >= 0:
        title += f"; {human_bytes(found.usable_bytes)} of {human_bytes(found.total_bytes)} left"
    title += "; cordoned" if found.is_cordoned else ""
    heads = ("BROKER", "LOG-DIR", "PARTITION", "SIZE", "OFFSET-LAG", "FUTURE")
    if out.is_terminal:
        rows = [(each.partition, each.size, each.offset_lag, _yes(each)) for each in replicas]
        out.table(("Partition", "Size", "Offset lag", "Future"), rows, title=title)
        return
    out.line(title)
    out.table(
        heads,
        [(broker, found.path, each.partition, each.size, each.offset_lag, _yes(each)) for each in replicas],
    )


def _yes(replica: ReplicaInDir) -> str:
    return "true" if replica.is_future else "false"


def _row(broker: int, found: LogDir, replicas: list[ReplicaInDir]) -> LogDirRow:
    return LogDirRow(
        broker,
        found.path,
        None if found.error is None else str(found.error),
        None if found.total_bytes < 0 else found.total_bytes,
        None if found.usable_bytes < 0 else found.usable_bytes,
        found.is_cordoned,
        [
            {
                "partition": str(each.partition),
                "size": each.size,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in replicas
        ],
    )


def human_bytes(size: int) -> str:
    """1536 as 1.5 KiB."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
