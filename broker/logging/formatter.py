"""Log lines formatted by structlog, over records of the standard library.

Imported with the first line that is written: structlog costs a start 20 ms, and rich, which it imports where it is
installed and which nothing here uses, another 60 ms and 4 MiB for good. So rich is hidden from it.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

IS_RICH_HIDDEN = sys.modules.setdefault("rich", None) is None  # type: ignore[arg-type]  # None: not to be imported

import structlog  # noqa: E402
from structlog import dev, processors, stdlib  # noqa: E402

if IS_RICH_HIDDEN:
    del sys.modules["rich"]


def formatter(*, as_json: bool, colours: bool) -> logging.Formatter:
    """JSON for machines, or lines for people. The caller's `extra` comes out as fields."""
    shared: list[structlog.typing.Processor] = [
        stdlib.add_log_level,
        stdlib.add_logger_name,
        stdlib.ExtraAdder(),
    ]
    last: list[Any]
    if as_json:
        shared.insert(0, processors.TimeStamper(fmt="iso", utc=True))
        last = [processors.format_exc_info, processors.EventRenamer("message"), processors.JSONRenderer()]
    else:
        shared.insert(0, processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False))
        last = [dev.ConsoleRenderer(colors=colours, exception_formatter=dev.plain_traceback, pad_event_to=0)]
    return stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )
