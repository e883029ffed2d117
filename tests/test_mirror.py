"""Each module has a test file of its own: broker/fetch/session.py has tests/broker/fetch/test_session.py.

tests/without_tests.txt lists the modules that have none, tested together with others. It may only get shorter.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("broker", "cli", "config", "pipeline", "protocol", "security", "storage")
LIST: Final = ROOT / "tests" / "without_tests.txt"


@cache
def modules() -> set[str]:
    """The modules by path, but for those that declare messages and nothing else (they are tested as one)."""
    found = {path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {
        path.as_posix()
        for path in found
        if path.name != "__init__.py" and not path.is_relative_to("protocol/messages")
    }


def file_of(module: str) -> Path:
    """The file in which the tests of a module are."""
    path = Path(module)
    return ROOT / "tests" / path.parent / f"test_{path.name}"


def listed() -> list[str]:
    return LIST.read_text(encoding="ascii").splitlines()


def test_each_module_has_a_test_file_or_is_listed() -> None:
    missing = {module for module in modules() if not file_of(module).exists()}
    assert sorted(missing - set(listed())) == []


def test_the_list_names_modules_without_tests_once_and_in_order() -> None:
    assert listed() == sorted(set(listed()))
    assert [module for module in listed() if module not in modules() or file_of(module).exists()] == []


def test_a_test_file_is_where_its_module_is() -> None:
    assert file_of("broker/fetch/session.py") == ROOT / "tests" / "broker" / "fetch" / "test_session.py"
