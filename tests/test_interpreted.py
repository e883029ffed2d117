"""With BARNABAS_INTERPRETED=1 everything runs as plain Python, whatever is built beside it, also what is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import barnabas
from barnabas.broker import compiled
from barnabas.interpreted import PLAIN
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).parents[1]


def in_a_process(code: str, path: Path = ROOT) -> str:
    """What that prints, as plain Python."""
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(path)}
    return subprocess.check_output([sys.executable, "-c", code], env=environment, cwd=path, text=True)


def test_nothing_of_ours_is_compiled() -> None:
    files = in_a_process(
        "import json, sys; from barnabas.broker.startup import server; from barnabas.broker import compiled\n"
        "from barnabas.protocol.records import columns, record, searching\n"
        "assert compiled.form() == 'interpreted'\n"
        "assert record.validate_records(bytes.fromhex('0e000a00026b0100'), 1, 0).max_timestamp == 5\n"
        "print(json.dumps([str(module.__file__) for name, module in sys.modules.items() if name[:8] == 'barnabas']))"
    )
    assert all(file.endswith(".py") for file in json.loads(files))


MODULE = f"module{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package with one module, which is not compiled."""
    room = tmp_path / "barnabas" / "room"
    room.mkdir(parents=True)
    for name in ("__init__.py", "interpreted.py"):
        (tmp_path / "barnabas" / name).write_bytes((ROOT / "barnabas" / name).read_bytes())
    (room / "__init__.py").touch()
    (room / "module.py").write_text("WORD = 'source'")
    return tmp_path


def test_a_library_beside_a_source_is_not_loaded(installed: Path) -> None:
    (installed / barnabas.LIBRARY).touch()
    (installed / "barnabas" / "room" / MODULE).write_bytes(b"no library")
    assert in_a_process("from barnabas.room import module; print(module.WORD)", installed) == "source\n"


APPEARING = f"""
import barnabas, sys
sys.path_importer_cache.clear()
open(sys.argv[1] + "/barnabas/room/{MODULE}", "w").close()
open(sys.argv[1] + "/" + barnabas.LIBRARY, "w").close()
from barnabas.room import module
print(module.WORD)
"""


def test_libraries_that_appear_while_a_process_runs_are_not_loaded(installed: Path) -> None:
    """Or it would run some modules compiled, and those that it imported before as Python."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    environment.pop("BARNABAS_INTERPRETED", None)
    command = [sys.executable, "-c", APPEARING, str(installed)]
    ran = [
        subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, check=False)
        for _ in range(2)
    ]
    assert (ran[0].stdout, ran[0].stderr) == ("source\n", "")
    assert "ImportError" in ran[1].stderr  # the next process finds the libraries: here, empty files


def test_a_build_names_the_library_that_it_brings_last() -> None:
    assert f"{compiled.LIBRARY}{EXTENSION_SUFFIXES[0]}" == barnabas.LIBRARY


def test_a_broker_says_so_in_its_ready_line(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.environment = PLAIN
    try:
        broker.start()
        assert ", interpreted, started in" in broker.output
    finally:
        broker.kill()
