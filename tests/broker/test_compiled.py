"""The list of what mypyc compiles, what is said of it, and how an old build is found out."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from barnabas.broker import compiled
from barnabas.broker.compiled import MODULES

ROOT = Path(__file__).parents[2]


def module(file: str, **names: object) -> ModuleType:
    made = ModuleType("made")
    made.__file__ = file
    vars(made).update(names)
    return made


PLAIN = module("/x/plain.py")
BUILT = module(f"/x/built{EXTENSION_SUFFIXES[0]}")
LOOP = module("/x/loop.py", COMPILED=False)


def test_the_list_names_each_module_once_in_order() -> None:
    assert list(MODULES) == sorted(set(MODULES))
    for name in MODULES:
        assert ROOT.joinpath(*name.split(".")).with_suffix(".py").exists(), name


def test_nothing_is_compiled_by_both_compilers() -> None:
    for name in MODULES:
        assert not ROOT.joinpath(*name.split(".")).with_suffix(".pxd").exists(), name


def test_a_group_is_there_as_a_whole_or_not_at_all() -> None:
    files = {str(importlib.import_module(name).__file__) for name in MODULES}
    assert len({file.endswith(EXTENSION_SUFFIXES[0]) for file in files}) == 1, sorted(files)


@pytest.mark.parametrize(
    ("modules", "form"),
    [
        ({}, "compiled"),
        (
            {
                MODULES[0]: BUILT,
                "barnabas.protocol.a": BUILT,
                "barnabas.broker.other": PLAIN,
                "barnabas.protocol.other": PLAIN,
            },
            "compiled",
        ),
        ({MODULES[0]: PLAIN, "barnabas.protocol.a": LOOP}, "interpreted"),
        ({MODULES[0]: BUILT, "barnabas.protocol.a": LOOP}, "compiled but for barnabas.protocol.a"),
        (
            {MODULES[1]: PLAIN, MODULES[0]: PLAIN, MODULES[2]: BUILT},
            f"compiled but for {MODULES[0]}, {MODULES[1]}",
        ),
    ],
)
def test_what_is_said_of_it(modules: dict[str, ModuleType], form: str) -> None:
    assert compiled.form(modules) == form


def test_what_is_loaded_here_has_a_form() -> None:
    importlib.import_module("barnabas.protocol.records.record")
    assert compiled.form().startswith(("compiled", "interpreted"))
    assert compiled.form() == compiled.form(dict(sys.modules))


class Checkout:
    """A checkout in which one module of each compiler has been compiled at second 100."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.typed = root.joinpath(*MODULES[0].split(".")).with_suffix(".py")
        self.loop = root / "protocol" / "records" / "loop.py"
        for source in (
            self.typed,
            self.loop,
            self.loop.with_suffix(".pxd"),
            root / "protocol" / "shared.pxd",
        ):
            self.touch(source, 90)
        for source in (self.typed, self.loop):
            self.touch(source.parent / f"{source.stem}{EXTENSION_SUFFIXES[0]}", 100)
        self.touch(root / "setup.py", 500)

    def touch(self, path: Path, second: int) -> None:
        """Has it written at that time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (second, second))

    def stale(self) -> list[Path]:
        """What has changed since."""
        return [Path(path) for path in compiled.stale(str(self.root))]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_build_is_as_new_as_its_sources(checkout: Checkout) -> None:
    assert checkout.stale() == []
    checkout.touch(checkout.typed, 101)
    assert checkout.stale() == [checkout.typed]
    checkout.touch(checkout.loop.with_suffix(".pxd"), 101)
    assert checkout.stale() == [checkout.typed, checkout.loop.with_suffix(".pxd")]


def test_what_is_not_compiled_is_never_too_old(checkout: Checkout) -> None:
    checkout.touch(checkout.loop, 101)
    for library in checkout.root.rglob(f"*{EXTENSION_SUFFIXES[0]}"):
        library.unlink()
    assert checkout.stale() == []


def test_an_installed_broker_looks_at_nothing(checkout: Checkout) -> None:
    checkout.touch(checkout.typed, 101)
    (checkout.root / "setup.py").unlink()
    assert checkout.stale() == []
