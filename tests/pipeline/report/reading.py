"""Reads reports as a browser would, as far as tests need it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import NamedTuple
from xml.etree import ElementTree as ET

from barnabas.pipeline.report.figures import Figure
from barnabas.pipeline.report.page import Page, render

_VOID = {"meta", "link", "br", "hr", "img", "input"}
SVG = "{http://www.w3.org/2000/svg}"


class _Checker(HTMLParser):
    """Checks that elements are closed; collects external resources and the texts of table cells."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attrs:
            outside = value is not None and not value.startswith("#") and "://" in value
            if tag == "script" or (name in {"src", "href", "xlink:href", "srcset"} and outside):
                self.loads.append(f"<{tag} {name}={value}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


class Read(NamedTuple):
    """A rendered page: its HTML and its texts."""

    html: str
    texts: list[str]


def read(page: Page) -> Read:
    """Renders a page, and asserts that it is complete and loads nothing."""
    html = render(page)
    checker = _Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert checker.loads == []
    assert not re.search(r"@import|url\((?!#)", html)
    ids = re.findall(r'<clipPath id="([^"]+)"', html)
    assert len(ids) == len(set(ids)), "figures do not clip each other"
    return Read(html, checker.texts)


def texts(figure: Figure) -> list[str]:
    """All texts of a figure; asserts that it is well-formed."""
    return ["".join(each.itertext()).strip() for each in ET.fromstring(figure.svg).iter(f"{SVG}text")]


def shapes(figure: Figure, colour: str) -> int:
    """The number of shapes filled with a colour: bars, and one for each entry of a legend."""
    return sum(
        f"fill: {colour}" in (each.get("style") or "")
        for each in ET.fromstring(figure.svg).iter(f"{SVG}path")
    )
