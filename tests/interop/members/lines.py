"""The common part of the programs in Python: reads commands, prints events, and runs a thread for each member."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

_lock = threading.Lock()


class Member(NamedTuple):
    """The arguments of `join` and `chain`. `target` is None for a member that only reads."""

    name: str
    topic: str
    group: str
    protocol: str
    instance: str | None = None
    target: str | None = None
    abort_every: int = 0


RunMember = Callable[[Member, threading.Event], None]
"""Runs one member in a thread of its own, until the event is set."""


def print_line(kind: str, name: str, *words: object) -> None:
    """Prints one line."""
    with _lock:
        print(kind, name, *words, flush=True)


def print_assigned(name: str, partitions: Iterable[int]) -> None:
    """Prints all partitions that the member owns now."""
    print_line("assigned", name, ",".join(map(str, sorted(partitions))))


def print_received(name: str, offsets: Mapping[int, list[int]]) -> None:
    """Prints the received records by partition; `offsets` are in ascending order."""
    for partition, received in offsets.items():
        first = last = received[0]
        for offset in received[1:]:
            if offset != last + 1:
                print_line("got", name, partition, f"{first}-{last}")
                first = offset
            last = offset
        print_line("got", name, partition, f"{first}-{last}")


def print_committed(name: str, ends: Mapping[int, int]) -> None:
    """Prints accepted commits."""
    for partition, offset in ends.items():
        print_line("committed", name, partition, offset)


def run_program(run_member: RunMember) -> None:
    """Executes commands until the input ends, then has every member leave."""
    leaving: dict[str, threading.Event] = {}
    threads: list[threading.Thread] = []
    for line in sys.stdin:
        verb, name, *words = line.split()
        if verb == "leave":
            leaving[name].set()
            continue
        leaving[name] = threading.Event()
        thread = threading.Thread(
            target=_run_and_report, args=(run_member, _member(verb, name, words), leaving[name])
        )
        thread.start()
        threads.append(thread)
    for event in leaving.values():
        event.set()
    for thread in threads:
        thread.join()


def _member(verb: str, name: str, words: list[str]) -> Member:
    if verb == "join":
        topic, group, protocol, *instance = words
        return Member(name, topic, group, protocol, instance[0] if instance else None)
    source, target, group, protocol, abort_every = words
    return Member(name, source, group, protocol, target=target, abort_every=int(abort_every))


def _run_and_report(run_member: RunMember, member: Member, leave: threading.Event) -> None:
    try:
        run_member(member, leave)
    except Exception as error:
        print_line("failed", member.name, repr(error).replace("\n", " "))
    else:
        print_line("left", member.name)
