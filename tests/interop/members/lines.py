"""The common part of the programs in Python: their lines, and a thread for each member."""

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


Play = Callable[[Member, threading.Event], None]
"""Plays one member, in a thread of its own, until it is told to leave."""


def say(kind: str, name: str, *words: object) -> None:
    """One line."""
    with _lock:
        print(kind, name, *words, flush=True)


def say_assigned(name: str, partitions: Iterable[int]) -> None:
    """All that the member owns now."""
    say("assigned", name, ",".join(map(str, sorted(partitions))))


def say_got(name: str, offsets: Mapping[int, list[int]]) -> None:
    """What was handed out, by partition; its offsets rise."""
    for partition, handed in offsets.items():
        first = last = handed[0]
        for offset in handed[1:]:
            if offset != last + 1:
                say("got", name, partition, f"{first}-{last}")
                first = offset
            last = offset
        say("got", name, partition, f"{first}-{last}")


def say_committed(name: str, ends: Mapping[int, int]) -> None:
    """What the broker has taken."""
    for partition, offset in ends.items():
        say("committed", name, partition, offset)


def run(play: Play) -> None:
    """Reads lines until there are no more, then has every member leave."""
    leaving: dict[str, threading.Event] = {}
    threads: list[threading.Thread] = []
    for line in sys.stdin:
        verb, name, *words = line.split()
        if verb == "leave":
            leaving[name].set()
            continue
        leaving[name] = threading.Event()
        thread = threading.Thread(target=_guarded, args=(play, _member(verb, name, words), leaving[name]))
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


def _guarded(play: Play, member: Member, leave: threading.Event) -> None:
    try:
        play(member, leave)
    except Exception as error:
        say("failed", member.name, repr(error).replace("\n", " "))
    else:
        say("left", member.name)
