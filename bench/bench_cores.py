"""More than one core: what could be done beside the event loop, what handing it over costs, and several brokers.

docs/multicore.md draws the conclusions. The prototypes are in bench/cores_*.py; nothing of the broker imports them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench import cores_brokers, cores_tls, cores_work, results
from bench.section import Section, Table, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.records.compression import CompressionType

MIB_MESSAGES = 1024
"""Of 1 KiB in a MiB."""


def checking(seconds: float, rounds: int) -> tuple[Table, dict[str, float]]:
    """On the loop, in a thread, in a process: microseconds a batch."""
    rows, figures = [], {}
    for codec in cores_work.CODECS:
        for records in cores_work.RECORDS:
            row, found = _checked(codec, records, seconds, rounds)
            rows.append(row)
            figures.update(found)
    heads = [
        "batch",
        "on the loop",
        "in a thread: loop",
        "in all",
        "until done",
        "in a process: loop",
        "in all",
        "until done",
        "two threads do",
    ]
    return Table(heads, rows, title="Checking a batch: CRC, unpacking, every record; us"), figures


def _checked(
    codec: CompressionType, records: int, seconds: float, rounds: int
) -> tuple[list[str], dict[str, float]]:
    data = cores_work.batch_of(records, codec)
    here = cores_work.on_the_loop(data, seconds)
    thread = cores_work.in_a_thread(data, seconds)
    process = cores_work.in_a_process(data, seconds)
    overlap = cores_work.check_speed_up(data, rounds)
    name = f"{codec.label}, {records} x 1 KiB"
    row = [name, number(here.loop_us), *map(number, thread), *map(number, process), f"{overlap:.2f} x"]
    figures = {
        f"{name}: on the loop us": here.loop_us,
        f"{name}: thread, loop us": thread.loop_us,
        f"{name}: thread, all us": thread.all_us,
        f"{name}: process, loop us": process.loop_us,
        f"{name}: process, all us": process.all_us,
        f"{name}: two threads": overlap,
    }
    return row, figures


def already_elsewhere(seconds: float, rounds: int) -> tuple[Table, dict[str, float]]:
    """What is in threads today: recovery and fsync; and what passing a connection to another process costs."""
    figures = {
        "recovery of 1 KiB batches, two threads x": cores_work.recovery_speed_up(1, rounds),
        "recovery of 16 KiB batches, two threads x": cores_work.recovery_speed_up(15, rounds),
        "passing a descriptor us": cores_work.passing_a_descriptor_us(),
    }
    here, there = cores_work.fsync_cost(seconds)
    figures |= {
        "write and fsync of 1 MiB on the loop: the loop stands still us": here.wall_us,
        "write and fsync of 1 MiB, fsync in a thread: loop us": there.loop_us,
    }
    rows = [[name, number(figure)] for name, figure in figures.items()]
    return Table(["threads and descriptors", ""], rows), figures


def tls(rounds: int) -> tuple[Table, dict[str, float]]:
    """Handshakes, and bytes."""
    cipher, came, went = cores_tls.bytes_us(rounds)
    figures = {
        f"{cipher}: 1 KiB that comes us": came / MIB_MESSAGES,
        f"{cipher}: 1 KiB that goes us": went / MIB_MESSAGES,
    }
    for key in cores_tls.KEYS:
        figures[f"handshake, {key}: us of the server"] = cores_tls.handshake_us(key, rounds)
        figures[f"handshake, {key}: two threads x"] = cores_tls.handshake_speed_up(key, min(rounds, 21))
    return Table(["TLS 1.3", ""], [[name, number(figure)] for name, figure in figures.items()]), figures


def brokers(seconds: float, rounds: int) -> tuple[Table, dict[str, float]]:
    """One process and two, each with clients of its own."""
    rows, figures = [], {}
    for kind, found in cores_brokers.compare(seconds, rounds).items():
        for (processes, clients), rates in found.items():
            name = f"{kind}: {processes} broker(s), {clients} client(s)"
            rows.append([name, *map(number, rates[:3]), f"{rates.idle_share:.0%}"])
            figures[f"{name}: messages a second"] = rates.messages_per_second
            figures[f"{name}: broker us"] = rates.broker_us
    heads = ["produce", "messages a second", "broker, us a message", "clients, us a message", "machine idle"]
    return Table(heads, rows), figures


def main(argv: Sequence[str] | None = None) -> None:
    """Measures all of it, prints and publishes."""
    options = results.arguments(__doc__).parse_args(argv)
    seconds, rounds, load_s, load_rounds = (0.02, 1, 1.0, 1) if options.quick else (0.4, 21, 3.0, 3)
    load, _, _ = (
        os.getloadavg()
    )  # what else runs takes from times to the answer and from threads side by side
    parts = [
        checking(seconds, rounds),
        already_elsewhere(seconds, rounds),
        tls(10 if options.quick else 60),
        brokers(load_s, load_rounds),
    ]
    section = Section(
        name="cores",
        title="More than one core",
        prose=[
            "What could leave the event loop's thread, and what handing it over costs: microseconds of the "
            "loop's own "
            "thread, of all threads and processes, and from begin to end. [multicore.md](multicore.md) draws the "
            "conclusions. Two threads that overlap entirely do 2 x what one does; where the interpreter lock is "
            "held they do 1 x.",
            "Several brokers have their own data and clients of their own, all on this machine: with two cores and "
            "the clients on them there is no core left for a second broker to use.",
        ],
        tables=[table for table, _ in parts],
        figures={name: figure for _, figures in parts for name, figure in figures.items()},
        options={"load average when it began": number(load)},
    )
    results.publish(section, options)


if __name__ == "__main__":
    main()
