"""A module runs as plain Python, whatever is built beside it."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_of_ours_is_compiled() -> None:
    code = (
        "from bench.interpreted import hide_compiled; hide_compiled()\n"
        "from barnabas.broker import compiled\nfrom barnabas.broker.startup import server\n"
        "assert compiled.form() == 'interpreted'\n"
        "from barnabas.protocol.records import columns, record, searching\n"
        "assert not (columns.COMPILED or record.COMPILED or searching.COMPILED)\n"
        "assert record.validate_records(bytes.fromhex('0e000a00026b0100'), 1, 0).max_timestamp == 5\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
