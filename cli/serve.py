"""`barnabas serve`. argparse reads its line, because click costs a start ten times as much (20 ms)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

WIDTH: Final = 110
"""Of the help text. Otherwise every start imports shutil and compressors, for argparse to find the terminal's width."""

DESCRIPTION: Final = """\
Start a broker and serve until SIGTERM or Ctrl-C.

PROPERTIES is a server.properties as Apache Kafka reads it. Without it the broker listens on localhost:9092
and logs the directory of its data. Storage is formatted on first start. KAFKA_* environment
variables set keys as they do in Apache Kafka's container image.

Exit codes:
  0  clean shutdown (SIGTERM, Ctrl-C, SIGHUP without nohup)
  1  failed to start (address in use, data directory locked or damaged) or had to stop
  2  the command line or the configuration is wrong
"""


def parser() -> argparse.ArgumentParser:
    """Declares the arguments of `serve`."""
    made = argparse.ArgumentParser(
        "barnabas serve",
        description=DESCRIPTION,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=WIDTH),
        allow_abbrev=False,
    )
    made.add_argument("properties", nargs="?", type=_file, metavar="PROPERTIES")
    made.add_argument(
        "--override",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="Set one key; wins over the file and the environment. May be repeated.",
    )
    made.add_argument(
        "--show-config",
        action="store_true",
        help="Print each setting that is not a default and its source, then exit.",
    )
    return made


def _file(path: str) -> str:
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise argparse.ArgumentTypeError(f"{path} is not a file that can be read")
    return path


def main(words: Sequence[str]) -> int:
    """Serves and returns the exit code. Raises SystemExit if the command line or the configuration is wrong."""
    given = parser().parse_intermixed_args(words)
    from barnabas.broker.startup import serving

    if given.show_config:
        from barnabas.cli.config import effective_settings

        print(effective_settings(serving.load_config(given.properties, given.overrides)))
        return 0
    try:
        return serving.serve(given.properties, given.overrides)
    except KeyboardInterrupt:  # before the broker handles signals
        print("Aborted!", file=sys.stderr)
        return 1
