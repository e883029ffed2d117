"""What is derived from the code says what the code says, and what documents name exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")],
    key=lambda path: path.as_posix(),
)
MAPS: Final = (ROOT / "docs" / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
"""Documents that name every file by its path from the root; others may leave out the folders in front."""
MOST_WORDS: Final = 2300
NAMED_FILE: Final = re.compile(r"`([\w./-]+\.py)(?:: ([\w., ]+))?`")
"""A file in backticks, with the functions and classes that are named in it: `room/file.py: Class.method, function`."""
CODE_BLOCK: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def named_files(document: Path) -> Iterator[tuple[str, list[str]]]:
    """The files that a document names, each with the functions and classes that are named with it."""
    for path, names in NAMED_FILE.findall(CODE_BLOCK.sub("", document.read_text(encoding="utf-8"))):
        yield path, [name for name in names.split(", ") if name]


def names_in(source: str) -> set[str]:
    """The top-level functions, classes and constants of a module, and the methods of its classes as Class.method."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            methods = (
                item.name for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
            )
            found |= {f"{node.name}.{method}" for method in methods}
    return found


def is_in(name: str, known: set[str]) -> bool:
    """Whether a module has a name: of a method the class may be left out."""
    return name in known or any(other.endswith(f".{name}") for other in known)


def test_the_generated_documents_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", document.read_text(encoding="utf-8"))  # code may look like a link
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", MAPS, ids=lambda path: path.name)
def test_a_map_names_files_by_their_whole_path(document: Path) -> None:
    assert [path for path, _ in named_files(document) if not (ROOT / path).is_file()] == []


def test_the_map_is_read_in_ten_minutes_and_names_every_room() -> None:
    text = MAPS[0].read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
    rooms = {
        path.parent.name
        for package in ("broker", "storage")
        for path in ROOT.glob(f"{package}/*/__init__.py")
    }
    assert {room for room in rooms if f"`{room}`" not in text} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_named_file_exists(document: Path, all_files: list[str]) -> None:
    missing = [
        path
        for path, _ in named_files(document)
        if not any(f"/{file}".endswith(f"/{path}") for file in all_files)
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_named_function_is_in_its_file(document: Path, all_files: list[str]) -> None:
    for path, names in named_files(document):
        if not names:
            continue
        files = [file for file in all_files if f"/{file}".endswith(f"/{path}")]
        known = {name for file in files for name in names_in((ROOT / file).read_text(encoding="utf-8"))}
        assert [name for name in names if not is_in(name, known)] == [], path


def test_the_docstring_of_a_room_names_modules_that_exist() -> None:
    for room in sorted((*ROOT.glob("broker/*/__init__.py"), *ROOT.glob("storage/*/__init__.py"))):
        documentation = ast.get_docstring(ast.parse(room.read_text(encoding="utf-8"))) or ""
        named = [name.strip("/") for name in re.findall(r"`([\w/]+)`", documentation)]
        missing = [name for name in named if not any(room.parent.glob(f"{name}*"))]
        assert missing == [], room.parent


def test_a_named_file_is_found_with_its_functions() -> None:
    text = "`a/b.py: C.d, e` and `f.py`, not `g.md`"
    assert NAMED_FILE.findall(text) == [("a/b.py", "C.d, e"), ("f.py", "")]
    known = names_in("class C:\n    def d(self): ...\ndef e(): ...\nX: int = 1\n")
    assert known == {"C", "C.d", "e", "X"}
    assert is_in("d", known)
    assert not is_in("D.d", known)


@pytest.fixture(scope="module")
def all_files() -> list[str]:
    """The sources of the repository, by their paths from the root."""
    folders = [
        "barnabas",
        "bench",
        "broker",
        "cli",
        "config",
        "docs",
        "pipeline",
        "protocol",
        "security",
        "storage",
        "tests",
    ]
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [path.relative_to(ROOT).as_posix() for path in (*found, *ROOT.glob("*.py"))]
