"""The answers to a client, step by step, in a form that can be compared between two brokers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Tree = Any
"""A JSON value."""


class Place(NamedTuple):
    """The addresses and paths of a broker, which transcripts replace."""

    bootstrap: str
    data: str
    """Its log directory."""
    work: str
    """A directory for the input files of tools."""
    controller: str
    """The port of its controller."""
    properties: str
    """Its server.properties, for kafka-storage."""


_ID = re.compile(r"(?<![\w/+-])[A-Za-z0-9_/+-]{22}(?![\w/+-])")
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
_TIME_MS = re.compile(r"(?<!\d)1[789]\d{11}(?!\d)")


class Transcript:
    """Answers by step. Ids, times, ports and paths are replaced by placeholders."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.answers: dict[str, Tree] = {}

    def note(self, step: str, call: Callable[[], Tree]) -> None:
        """Runs one step; keeps its answer or exception."""
        assert step not in self.answers, f"two steps are named {step}"
        try:
            answer = call()
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        self.answers[step] = self._plain(answer)

    def _plain(self, value: Tree) -> Tree:
        if isinstance(value, dict):
            return {self._text(str(key)): self._plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(one) for one in value]
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and not isinstance(value, bool) and _TIME_MS.fullmatch(str(value)):
            return "<time>"
        if isinstance(value, int) and str(value) in (
            self.place.controller,
            self.place.bootstrap.rpartition(":")[2],
        ):
            return "<port>"
        return value if isinstance(value, int | float | bool | None) else self._text(str(value))

    def _text(self, text: str) -> str:
        place = self.place
        host, _, port = place.bootstrap.rpartition(":")
        for path, name in ((place.data, "<data>"), (place.work, "<work>"), (place.bootstrap, "<broker>")):
            text = text.replace(path, name)
        text = re.sub(rf"(?<!\d){port}(?!\d)", "<port>", text).replace(host, "<host>")
        text = re.sub(rf"(?<!\d){place.controller}(?!\d)", "<controller>", text)
        text = _TIME_MS.sub("<time>", text)
        return _ID.sub("<id>", _UUID.sub("<id>", text))
