"""`make run` serves at once, has the compilers work beside it, and starts what they built the next time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.compiled import BEING_COMPILED

ROOT = Path(__file__).parents[1]
LIMIT_S = 60.0

PYTHON = """#!/bin/sh
case "$*" in
  *tomllib*) echo setuptools ;;
  *--editable*) echo "install $BARNABAS_INTERPRETED" >> calls ;;
  setup.py*)
    echo compile >> calls
    for attempt in $(seq 1200); do test -e may-end && break; sleep 0.05; done
    test -e fails && exit 1
    touch barnabas__mypyc.so ;;
esac
"""
BARNABAS = f"""#!/bin/sh
echo "serve $BARNABAS_INTERPRETED ${BEING_COMPILED}" >> calls
"""

BEFORE, AFTER = "serve 1 1", "serve  "
"""The calls of a broker beside which the compilers work, and of one that has their work."""


class Checkout:
    """The Makefile, over commands that note that they were called; the compilers end when they may."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copy(ROOT / "Makefile", root)
        for folder in ("broker", "config", "protocol", "storage"):
            (root / folder).mkdir()
        self.source = root / "broker" / "source.py"
        for path in (self.source, root / "setup.py", root / "pyproject.toml"):
            path.touch()
        commands = root / ".venv" / "bin"
        commands.mkdir(parents=True)
        for name, text in (("python", PYTHON), ("barnabas", BARNABAS)):
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)

    def make(self, *words: str) -> subprocess.Popen[str]:
        """Begins that; what goes on in the background writes to the file `errors`."""
        outside = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BARNABAS_INTERPRETED", BEING_COMPILED)
        environment = {name: value for name, value in os.environ.items() if name not in outside}
        with open(self.root / "errors", "a") as errors:
            command = ["make", f"PYTHON={sys.executable}", *words]
            return subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=errors, stderr=errors, text=True
            )

    def run(self) -> None:
        assert self.make("run").wait(LIMIT_S) == 0

    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def let_compilers_end(self) -> None:
        (self.root / "may-end").touch()
        wait_until((self.root / ".venv" / ".compiled").exists)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_start_does_not_wait_for_the_compilers(checkout: Checkout) -> None:
    checkout.run()
    wait_until(lambda: "compile" in checkout.calls())
    assert sorted(checkout.calls()) == ["compile", "install 1", BEFORE]
    checkout.let_compilers_end()
    checkout.run()
    assert checkout.calls()[3:] == [AFTER]


def test_two_at_the_same_time_set_up_and_compile_once(checkout: Checkout) -> None:
    both = [checkout.make("run") for _ in range(2)]
    assert [make.wait(LIMIT_S) for make in both] == [0, 0]
    wait_until(lambda: "compile" in checkout.calls())
    checkout.let_compilers_end()
    assert checkout.make(".venv/.compiled").wait(LIMIT_S) == 0  # waits for the other one
    assert sorted(checkout.calls()) == ["compile", "install 1", BEFORE, BEFORE]


def test_a_start_that_has_to_set_up_does_not_wait_for_the_compilers_of_another(checkout: Checkout) -> None:
    checkout.run()
    wait_until(lambda: "compile" in checkout.calls())
    (checkout.root / "pyproject.toml").touch()
    checkout.run()
    assert sorted(checkout.calls()) == ["compile", "install 1", "install 1", BEFORE, BEFORE]
    checkout.let_compilers_end()


def test_a_changed_source_is_served_at_once_and_compiled_beside_it(checkout: Checkout) -> None:
    checkout.run()
    checkout.let_compilers_end()
    later = time.time() + 10
    os.utime(checkout.source, (later, later))
    checkout.run()
    wait_until(lambda: checkout.calls().count("compile") == 2)
    assert sorted(checkout.calls()[3:]) == ["compile", BEFORE]


def test_a_build_that_fails_says_so_and_is_tried_again(checkout: Checkout) -> None:
    (checkout.root / "fails").touch()
    checkout.run()
    (checkout.root / "may-end").touch()
    errors = checkout.root / "errors"
    wait_until(lambda: "Compiling failed: build/compile.log says why" in errors.read_text())
    checkout.run()
    wait_until(lambda: checkout.calls().count("compile") == 2)
    assert checkout.calls().count(BEFORE) == 2


def test_tests_wait_for_the_compilers(checkout: Checkout) -> None:
    (checkout.root / "may-end").touch()
    assert checkout.make(".venv/.test").wait(LIMIT_S) == 0
    assert checkout.calls() == ["install 1", "compile"]
