"""Generates a shop's orders and clicks from a seed: the same seed gives the same stream, to the byte.

Orders are keyed by order, and each record has the order's status (placed, paid, shipped or cancelled); clicks are keyed
by session. The load varies with the hour and the weekday, a few values are malformed, and the second of two waves
has records that come days late.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from random import Random
from typing import Any, Final, NamedTuple

ORDERS: Final = "shop.orders"
CLICKS: Final = "shop.clicks"
TOPICS: Final = (ORDERS, CLICKS)
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
DAYS: Final = 6
FIRST_WAVE_DAYS: Final = 5
LATE_AFTER_MS: Final = 12 * HOUR_MS

_COUNTRIES: Final = {"DE": 34, "FR": 22, "IT": 14, "NL": 12, "PL": 10, "SE": 8}
_SOURCES: Final = {"web": 6, "ios": 3, "android": 3}
_PAGES: Final = ("/", "/search", "/product", "/cart", "/checkout")
_STEPS: Final = {"view": 70, "search": 14, "add": 10, "remove": 2, "checkout": 4}
_PRODUCTS: Final = tuple(
    (f"SKU-{number:03d}", name, price)
    for number, (name, price) in enumerate(
        (
            ("teapot", 2490),
            ("kettle", 3990),
            ("mug", 890),
            ("tray", 1790),
            ("tea towel", 690),
            ("strainer", 450),
            ("sugar bowl", 1290),
            ("green tea", 780),
            ("black tea", 640),
            ("biscuits", 390),
            ("cosy", 1590),
            ("lamp", 5900),
        )
    )
)
_BY_HOUR: Final = (2, 1, 1, 1, 1, 2, 4, 7, 9, 10, 11, 12, 13, 12, 11, 11, 12, 14, 17, 20, 19, 15, 9, 4)
_MALFORMED: Final = 0.004
_LATE: Final = 0.03

ORDER_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "order",
    "type": "object",
    "required": ["order_id", "customer_id", "status", "country", "total_cents", "items"],
    "properties": {
        "order_id": {"type": "string"},
        "customer_id": {"type": "integer"},
        "status": {"type": "string", "enum": ["placed", "paid", "shipped", "cancelled"]},
        "country": {"type": "string"},
        "total_cents": {"type": "integer", "minimum": 0},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["sku", "name", "quantity", "price_cents"],
                "properties": {
                    "sku": {"type": "string"},
                    "name": {"type": "string"},
                    "quantity": {"type": "integer", "minimum": 1},
                    "price_cents": {"type": "integer"},
                },
            },
        },
    },
}
CLICK_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "click",
    "type": "object",
    "required": ["session", "step", "page", "country"],
    "properties": {
        "session": {"type": "string"},
        "step": {"type": "string", "enum": list(_STEPS)},
        "page": {"type": "string"},
        "country": {"type": "string"},
        "sku": {"type": ["string", "null"]},
        "load_ms": {"type": "integer"},
    },
}
SCHEMAS: Final = {ORDERS: ORDER_SCHEMA, CLICKS: CLICK_SCHEMA}


class Event(NamedTuple):
    """A record to produce. `flaw` says what is wrong with it on purpose: "", "malformed" or "late"."""

    topic: str
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp_ms: int
    flaw: str = ""


def waves(seed: int, count: int, end_ms: int) -> tuple[list[Event], list[Event]]:
    """About `count` events of the days before `end_ms`: the first days, in order; then the last, with late ones."""
    rng = Random(seed)
    start_ms = end_ms - DAYS * DAY_MS
    found = sorted(_spoiled(rng, _shop(rng, count, start_ms, end_ms)), key=lambda event: event.timestamp_ms)
    split_ms = start_ms + FIRST_WAVE_DAYS * DAY_MS
    # An order that lasts for days is in both waves; events beyond the end are left out.
    found = [event for event in found if event.timestamp_ms < end_ms]
    first = [event for event in found if event.timestamp_ms < split_ms]
    return _held_back(rng, first, [event for event in found if event.timestamp_ms >= split_ms], split_ms)


def _held_back(
    rng: Random, first: list[Event], second: list[Event], split_ms: int
) -> tuple[list[Event], list[Event]]:
    """Moves a few events of the first wave to the second, by when they are late by any measure."""
    kept, late = [], []
    for event in first:
        is_old = event.timestamp_ms < split_ms - 2 * LATE_AFTER_MS
        if is_old and not event.flaw and rng.random() < _LATE * len(second) / max(len(first), 1):
            late.append(event._replace(flaw="late"))
        else:
            kept.append(event)
    for event in late:
        second.insert(rng.randrange(len(second) + 1), event)
    return kept, second


def _shop(rng: Random, count: int, start_ms: int, end_ms: int) -> Iterator[Event]:
    times = _Times(rng, start_ms, end_ms)
    made = number = 0
    while made < count:
        number += 1
        country = _pick(rng, _COUNTRIES)
        visit = list(_session(rng, number, country, times.draw()))
        if visit[-1][1] == "checkout":
            visit_events = [event for event, _ in visit]
            visit_events += _order(rng, number, country, visit_events[-1].timestamp_ms)
        else:
            visit_events = [event for event, _ in visit]
        made += len(visit_events)
        yield from visit_events


class _Times:
    """Draws times as shoppers choose them: more in the evening, most on Sundays."""

    def __init__(self, rng: Random, start_ms: int, end_ms: int) -> None:
        self._rng = rng
        self._hours = range(start_ms, end_ms, HOUR_MS)
        weights = []
        for hour in self._hours:
            at = datetime.fromtimestamp(hour / 1000, UTC)
            weights.append(_BY_HOUR[at.hour] * (1.5 if at.weekday() == 6 else 1.0))
        self._weights = list(accumulate(weights))

    def draw(self) -> int:
        (hour,) = self._rng.choices(self._hours, cum_weights=self._weights)
        return hour + self._rng.randrange(HOUR_MS)


def _session(rng: Random, number: int, country: str, start_ms: int) -> Iterator[tuple[Event, str]]:
    session = f"s-{number:07d}"
    headers = [("source", _pick(rng, _SOURCES).encode()), ("trace", rng.randbytes(8).hex().encode())]
    at = start_ms
    for _ in range(rng.randint(1, 9)):
        step = _pick(rng, _STEPS)
        sku = rng.choice(_PRODUCTS)[0] if step in {"add", "remove"} or rng.random() < 0.5 else None
        value = {
            "session": session,
            "step": step,
            "page": _PAGES[4] if step == "checkout" else rng.choice(_PAGES[:4]),
            "country": country,
            "sku": sku,
            "load_ms": round(rng.lognormvariate(5, 0.5)),
        }
        yield Event(CLICKS, session.encode(), _json(value), headers, at), step
        if step == "checkout":
            return
        at += rng.randrange(2_000, 90_000)


def _order(rng: Random, number: int, country: str, placed_ms: int) -> Iterator[Event]:
    order = f"o-{number:07d}"
    items: list[dict[str, Any]] = [
        {"sku": sku, "name": name, "quantity": rng.randint(1, 4), "price_cents": price}
        for sku, name, price in rng.sample(_PRODUCTS, rng.randint(1, 4))
    ]
    value: dict[str, Any] = {
        "order_id": order,
        "customer_id": rng.randrange(1, 5000),
        "status": "placed",
        "country": country,
        "total_cents": sum(item["quantity"] * item["price_cents"] for item in items),
        "items": items,
    }
    headers = [("source", _pick(rng, _SOURCES).encode())]
    at = placed_ms + rng.randrange(500, 5_000)
    ends = ("cancelled",) if rng.random() < 0.07 else ("paid", "shipped")
    for status in ("placed", *ends):
        yield Event(ORDERS, order.encode(), _json({**value, "status": status}), headers, at)
        at += (
            rng.randrange(HOUR_MS // 60, HOUR_MS)
            if status == "placed"
            else rng.randrange(HOUR_MS, 30 * HOUR_MS)
        )


def _spoiled(rng: Random, events: Iterator[Event]) -> Iterator[Event]:
    """Replaces a few events by malformed ones, as careless clients send them."""
    for event in events:
        if rng.random() >= _MALFORMED:
            yield event
            continue
        whole: dict[str, Any] = json.loads(event.value)
        name = "total_cents" if event.topic == ORDERS else "step"
        value = rng.choice(
            (
                event.value[: len(event.value) // 2],
                event.value.replace(b'"', b"'"),
                _json({**whole, name: "12,50"}),
                _json({key: each for key, each in whole.items() if key != name}),
                b"\xff\xfe" + event.value,
            )
        )
        yield event._replace(value=value, flaw="malformed")


def _pick(rng: Random, weights: dict[str, int]) -> str:
    (found,) = rng.choices(list(weights), list(weights.values()))
    return found


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def flaws(events: Sequence[Event]) -> dict[str, int]:
    """The number of flawed events, by flaw."""
    found: dict[str, int] = {}
    for event in events:
        if event.flaw:
            found[event.flaw] = found.get(event.flaw, 0) + 1
    return found
