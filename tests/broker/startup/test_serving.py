"""From a command line to a broker: errors of the configuration, the garbage collector and the standard streams."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.broker.startup import serving
from barnabas.broker.startup.exit_codes import EXIT_USAGE


def test_configuration_errors_are_reported_and_the_collector_is_enabled_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=0\n")
    with pytest.raises(SystemExit) as ended:
        serving.serve(str(file), ("fetch.max.bytes=1",))
    assert ended.value.code == EXIT_USAGE
    said = capsys.readouterr().err
    assert f"{file} line 1: num.partitions" in said
    assert "fetch.max.bytes" in said
    assert gc.isenabled()


def test_closed_streams_are_opened_on_devnull(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = (
        "import os, sys\n"
        "from barnabas.broker.startup.serving import open_closed_streams\n"
        "open_closed_streams()\n"
        "print('a line', flush=True)\n"
        "print('another', file=sys.stderr, flush=True)\n"
        "nowhere = os.stat(os.devnull)\n"
        "lead_nowhere = [os.path.samestat(os.fstat(number), nowhere) for number in (0, 1, 2)]\n"
        "open(sys.argv[1], 'w').write(str(lead_nowhere))\n"
    )
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    subprocess.run([*closed, sys.executable, "-c", program, str(told)], check=True)
    assert told.read_text() == "[True, True, True]"


def test_open_streams_are_unchanged() -> None:
    before = sys.stdout, sys.stderr, [os.fstat(number) for number in (0, 1, 2)]
    serving.open_closed_streams()
    assert (sys.stdout, sys.stderr, [os.fstat(number) for number in (0, 1, 2)]) == before
