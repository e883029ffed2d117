"""Timestamps on the command line of kafka-consumer-groups: dates of ISO 8601, and durations before now."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_DATE: Final = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}T\d{1,2}:\d{1,2}:\d{1,2})\.(\d{1,3})(Z|[+-]\d{2}(?::?\d{2})?)?", re.ASCII
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def parse_datetime(text: str) -> int:
    """`YYYY-MM-DDThh:mm:ss.sss` with or without Z or +hh:mm as milliseconds since 1970; without a zone: UTC.

    Raises ValueError. The digits after the point are milliseconds, as Java's SimpleDateFormat reads them.
    """
    found = _DATE.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        moment = datetime.strptime(f"{found[1]} {_zone(found[3])}", "%Y-%m-%dT%H:%M:%S %z")
    except ValueError:
        raise ValueError(
            f"{text!r} is not YYYY-MM-DDThh:mm:ss.sss, with or without a zone like Z or +01:00"
        ) from None
    return round(moment.timestamp()) * 1000 + int(found[2])


def _zone(text: str | None) -> str:
    """Z, +01, +0100 and +01:00 as strptime takes them."""
    return f"{text}00" if text and len(text) == 3 else text or "Z"


def parse_duration(text: str) -> int:
    """`PnDTnHnMnS` in milliseconds, as java.time.Duration.parse reads it. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.group(2, 4, 5, 6)) or (found[3] is not None and len(found[3]) == 1):
        raise ValueError(f"{text!r} is not a duration like P1DT2H30M or PT10S")
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    whole = sum(
        int(part or 0) * unit for part, unit in zip((days, hours, minutes, seconds), _UNITS_MS, strict=True)
    )
    part_ms = int((fraction or "").ljust(3, "0")[:3])
    whole += -part_ms if (seconds or "").startswith("-") else part_ms
    return -whole if sign == "-" else whole
