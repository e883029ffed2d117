"""How much of each module its own tests run: broker/fetch/session.py by tests/broker/fetch/test_session.py alone.

    python -m tests.support.own_coverage             # measures, and writes tests/coverage.txt
    python -m tests.support.own_coverage --check     # fails where a module has less than tests/coverage.txt has
    python -m tests.support.own_coverage broker/fetch/session.py     # shows which lines its tests do not run

Only statements inside of functions count: the others run when a module is imported. Each test file runs in a process
of its own, so that values which one file caches do not hide code from another. Subprocesses of tests are not measured.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from coverage import Coverage

ROOT: Final = Path(__file__).parents[2]
LIST: Final = ROOT / "tests" / "coverage.txt"
"""One line for each module: the percentage of its statements, rounded down, and its path."""

TOLERANCE: Final = 3
"""The percentage that may vary between runs: threads, signals, races."""

PRELOADED: Final = ("pytest", "coverage", "hypothesis", "pytest_asyncio", "uvloop")
"""Modules that take long to import and are not measured."""

PYTEST: Final = (
    *("-q", "-m", "not slow and not conformance and not spark", "-p", "no:xdist", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of modules imported before
)


class Measured(NamedTuple):
    """The coverage of one module by its tests."""

    module: str
    percent: int
    missing: list[int]
    """The lines of its functions that its tests do not run."""
    failed: str
    """The output of pytest if a test failed."""


# ---- one module, in a process of its own


def measure(module: str) -> Measured:
    """Runs the tests of a module in this process."""
    path = str(ROOT / module)
    coverage = Coverage(data_file=None, config_file=False, include=[path])
    coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported"])
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(output):
        coverage.start()
        status = pytest.main([*PYTEST, f"--basetemp={directory}/tests", str(test_file(module))])
        coverage.stop()
    _, statements, _, missing, _ = coverage.analysis2(path)
    lines = lines_of_functions(Path(path).read_text(encoding="utf-8"))
    counted = lines.intersection(statements)
    missing = sorted(counted.intersection(missing))
    succeeded = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return Measured(module, percent(counted, missing), missing, "" if succeeded else output.getvalue())


def lines_of_functions(source: str) -> set[int]:
    """The lines of the bodies of all functions."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def percent(counted: Collection[int], missing: Collection[int]) -> int:
    """The percentage of statements that ran, rounded down."""
    return 100 * (len(counted) - len(missing)) // len(counted) if counted else 100


# ---- all modules


def test_file(module: str) -> Path:
    from tests.test_mirror import file_of

    return file_of(module)


def modules_with_tests() -> list[str]:
    """The modules that have a test file of their own, by descending size of that file."""
    from tests.test_mirror import modules

    found = [module for module in sorted(modules()) if test_file(module).exists()]
    return sorted(found, key=lambda module: -test_file(module).stat().st_size)


def measure_all(modules: Sequence[str], workers: int) -> list[Measured]:
    """Measures each module in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    found = []
    with context.Pool(workers, maxtasksperchild=1) as pool:
        for one in pool.imap_unordered(measure, modules, chunksize=1):
            print(f"{one.percent:3} {one.module}", flush=True)
            found.append(one)
    return sorted(found)


def fallen(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """One line for each module with a lower percentage than before; removed modules are ignored."""
    return [
        f"{module}: {now[module]} %, was {was} %"
        for module, was in before.items()
        if module in now and now[module] < was - TOLERANCE
    ]


def kept(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """The percentages to write: one within the tolerance stays, so that the file changes only with the code."""
    return {
        module: before[module] if abs(share - before.get(module, -100)) <= TOLERANCE else share
        for module, share in now.items()
    }


def parse(text: str) -> dict[str, int]:
    """The percentages by module."""
    return {module: int(share) for share, module in map(str.split, text.splitlines())}


def render(shares: Mapping[str, int]) -> str:
    """The inverse of `parse`."""
    return "".join(f"{shares[module]:3} {module}\n" for module in sorted(shares))


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Measures how much of each module its own tests run.")
    parser.add_argument(
        "--check", action="store_true", help="fail where a module has fallen, and write nothing"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="how many test files run side by side"
    )
    parser.add_argument("modules", nargs="*", help="only these, with their missing lines")
    options = parser.parse_args(arguments)
    os.environ["BARNABAS_INTERPRETED"] = "1"
    os.environ.pop("BARNABAS_SEED", None)
    found = measure_all(options.modules or modules_with_tests(), options.workers)
    for one in found:
        if one.failed:
            print(f"{one.failed}\nthe tests of {one.module} failed")
        elif options.modules:
            print(f"{one.module}: its tests do not run lines {one.missing}")
    now = {one.module: one.percent for one in found}
    before = parse(LIST.read_text(encoding="ascii")) if LIST.exists() else {}
    lines = fallen(before, now)
    print(f"{len(now)} modules, {sum(now.values()) / len(now):.1f} % on average by their own tests")
    for line in lines:
        print(f"fallen: {line}")
    if any(one.failed for one in found) or (options.check and lines):
        return 1
    if not options.check and not options.modules:
        LIST.write_text(render(kept(before, now)), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
