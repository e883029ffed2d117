"""The list of modules that mypyc compiles, its description, and the detection of stale builds."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from barnabas.broker import compiled
from barnabas.broker.compiled import LIBRARY, MODULES

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


def test_no_module_is_compiled_by_both_compilers() -> None:
    for name in MODULES:
        assert not ROOT.joinpath(*name.split(".")).with_suffix(".pxd").exists(), name


def test_a_group_is_compiled_as_a_whole_or_not_at_all() -> None:
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
def test_the_description_of_loaded_modules(modules: dict[str, ModuleType], form: str) -> None:
    assert compiled.form(modules) == form


def test_the_ready_line_reports_what_the_next_start_will_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(compiled.BEING_COMPILED, raising=False)
    assert compiled.form_at_start() == compiled.form()
    monkeypatch.setenv(compiled.BEING_COMPILED, "1")
    expected = f"{compiled.form()}, while compiled code is built for the next start"
    assert compiled.form_at_start() == expected


def test_the_loaded_modules_have_a_form() -> None:
    importlib.import_module("barnabas.protocol.records.record")
    assert compiled.form().startswith(("compiled", "interpreted"))
    assert compiled.form() == compiled.form(dict(sys.modules))


class Checkout:
    """A checkout in which one module of each compiler is compiled, and another is not."""

    def __init__(self, root: Path) -> None:
        self.root = root
        packages = root / "barnabas"
        self.typed = root.joinpath(*MODULES[0].split(".")).with_suffix(".py")
        self.loop = packages / "protocol" / "records" / "loop.py"
        self.declared = self.loop.with_suffix(".pxd")
        self.shared = packages / "protocol" / "shared.pxd"
        self.other = packages / "storage" / "other.py"
        self.libraries = [self.library(self.typed), self.library(self.loop), root / f"{LIBRARY}{SUFFIX}"]
        for source in (self.typed, self.loop, self.declared, self.shared):
            self.write(source, "A = 1")
        self.write(self.other, OTHER)
        for library in self.libraries:
            library.touch()
        (root / "setup.py").touch()
        (root / "build").mkdir()
        Path(compiled.record_path(str(root))).write_text(compiled.record(str(root)))

    def library(self, source: Path) -> Path:
        """The compiled library of a source file."""
        return source.with_name(f"{source.stem}{SUFFIX}")

    def write(self, path: Path, text: str) -> None:
        """Writes a file with a distinct modification time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(0, next(TIMES)))

    def stale(self) -> list[Path]:
        """The sources that have changed since the build."""
        return [self.root / path for path in compiled.stale(str(self.root))]


SUFFIX = EXTENSION_SUFFIXES[0]
TIMES = itertools.count(10**18)
OTHER = """
SIZE: Final = 1

class Thing:
    def __init__(self) -> None:
        self.size = 2

    def double(self) -> int:
        return self.size * 2
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_build_is_as_new_as_its_sources(checkout: Checkout) -> None:
    assert checkout.stale() == []
    for source in (checkout.typed, checkout.loop, checkout.declared, checkout.shared):
        checkout.write(source, "A = 2")
        assert checkout.stale() == [source]
        checkout.write(source, "A = 1")  # another modification time alone is no change
        assert checkout.stale() == []


@pytest.mark.parametrize(
    ("old", "new", "is_stale"),
    [
        ("Final = 1", "Final = 2", True),  # constants are inlined
        ("-> int", "-> float", True),
        ("self.size = 2", "self.size = 2.0", True),
        ("class Thing", "class Other", True),
        ("size * 2", "size + self.size", False),
        ("    def", "    # a comment\n    def", False),
        ("def double", "double", True),  # invalid Python
    ],
)
def test_compiled_code_depends_on_what_it_inlined_from_others(
    checkout: Checkout, old: str, new: str, is_stale: bool
) -> None:
    assert old in OTHER
    checkout.write(checkout.other, OTHER.replace(old, new))
    assert checkout.stale() == ([checkout.other] if is_stale else [])


def test_added_and_removed_sources_make_a_build_stale(checkout: Checkout) -> None:
    new = checkout.other.with_name("new.py")
    checkout.write(new, "")
    checkout.other.unlink()
    assert checkout.stale() == [new, checkout.other]


def test_libraries_without_a_record_are_stale(checkout: Checkout) -> None:
    Path(compiled.record_path(str(checkout.root))).unlink()
    assert compiled.stale(str(checkout.root)) == ["all of it"]


def test_a_build_is_installed_as_a_whole(checkout: Checkout, tmp_path: Path) -> None:
    *others, last = names = [library.relative_to(checkout.root).as_posix() for library in checkout.libraries]
    built = tmp_path / "built"
    for name in others:
        checkout.write(built / name, name)
    with pytest.raises(FileNotFoundError):  # the last one is missing
        compiled.put_in_place(str(built), reversed(names), str(checkout.root), "")
    assert [(checkout.root / name).read_text() for name in others] == others
    assert not (checkout.root / last).exists()
    assert checkout.stale()
    checkout.write(built / last, last)
    known = compiled.record(str(checkout.root))
    compiled.put_in_place(str(built), names, str(checkout.root), known)
    assert [(checkout.root / name).read_text() for name in names] == names
    assert checkout.stale() == []


def test_interpreted_modules_are_never_stale(checkout: Checkout) -> None:
    checkout.write(checkout.loop, "A = 2")
    compiled.remove_libraries(str(checkout.root))
    assert not any(library.exists() for library in checkout.libraries)
    assert checkout.stale() == []


def test_an_installed_broker_checks_nothing(checkout: Checkout) -> None:
    checkout.write(checkout.typed, "A = 2")
    (checkout.root / "setup.py").unlink()
    assert checkout.stale() == []


def test_the_loops_are_those_beside_a_pxd(checkout: Checkout) -> None:
    assert compiled.loops(str(checkout.root)) == [
        ("barnabas.protocol.records.loop", "barnabas/protocol/records/loop.py")
    ]


def test_importing_compiled_imports_neither_ast_nor_hashlib() -> None:
    """Where nothing has changed `serve` compares only times."""
    code = "import sys; from barnabas.broker import compiled; print({'ast', 'hashlib'} & {*sys.modules})"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    assert ran.stdout == "set()\n"
