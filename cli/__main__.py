"""`barnabas`, also `python -m barnabas.cli`: `serve` without click, whose import would slow the start, and the rest."""

from __future__ import annotations

import sys


def main() -> None:
    """The installed command."""
    if sys.argv[1:2] == ["serve"]:
        from barnabas.cli import serve

        sys.exit(serve.main(sys.argv[2:]))
    from barnabas.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
