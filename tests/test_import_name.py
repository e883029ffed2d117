"""All of it has one import name, in a checkout and installed; each module exists once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINKS = sorted(path.name for path in (ROOT / "barnabas").iterdir() if path.is_symlink())
APPLICATION = """
import importlib, pkgutil, sys
from pathlib import Path

NAMES = ("broker", "cli", "config", "pipeline", "protocol", "security", "storage")
for name in NAMES:
    assert importlib.import_module(f"{name}.own").NAME == name
import barnabas
assert Path(barnabas.__file__).is_relative_to(sys.prefix)

def give_up(name):
    raise

for found in pkgutil.walk_packages(barnabas.__path__, "barnabas.", give_up):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in ("pyspark", "google"):
            raise
here = Path(__file__).parent
for name, module in sys.modules.items():
    if name.partition(".")[0] in NAMES:
        assert Path(module.__file__).is_relative_to(here), (name, module.__file__)
print(sum(name.startswith("barnabas.") for name in sys.modules))
"""


def test_each_package_of_the_checkout_is_linked() -> None:
    assert LINKS == ["broker", "cli", "config", "pipeline", "protocol", "security", "storage"]
    for name in LINKS:
        assert os.readlink(ROOT / "barnabas" / name) == f"../{name}"


@pytest.mark.parametrize("name", LINKS)
def test_a_package_refuses_its_short_name(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert f"ImportError: import barnabas.{name} instead of {name}" in done.stderr


@pytest.mark.slow
def test_what_is_installed_stands_beside_an_application_with_the_same_names(tmp_path: Path) -> None:
    """The wheel, without anything compiled, and beside it what the tests of this checkout run with."""
    python = environment_with_the_wheel(tmp_path)
    application = tmp_path / "application"
    for name in LINKS:
        package = application / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "own.py").write_text(f"NAME = {name!r}")
    (application / "main.py").write_text(APPLICATION)
    count = int(run(python, str(application / "main.py"), cwd=application))
    assert count > 500
    assert run(python, "-m", "barnabas.cli", "--version", cwd=application).startswith("barnabas ")
    assert "random-uuid" in run(str(Path(python).with_name("barnabas")), "storage", "--help", cwd=application)
    assert run(python, "-c", "import storage.own; print(storage.own.NAME)", cwd=application) == "storage\n"


def environment_with_the_wheel(place: Path) -> str:
    """The Python of a virtual environment with the wheel; what it depends on is found where the tests have it."""
    source = place / "source"
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if name.startswith(("tests/", "bench/", "docs/")) or not os.path.lexists(ROOT / name):
            continue
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to(os.readlink(ROOT / name))
        else:
            target.write_bytes((ROOT / name).read_bytes())
    build = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index")
    run(*build, "--wheel-dir", str(place), str(source), cwd=place, BARNABAS_INTERPRETED="1")
    (wheel,) = place.glob("barnabas-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", str(place / "venv"), cwd=place)
    python = str(place / "venv" / "bin" / "python")
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip()
    )
    before = set(os.listdir(packages))
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
        cwd=place,
    )
    (info,) = packages.glob("barnabas-*.dist-info")
    assert set(os.listdir(packages)) - before - {"__pycache__"} == {"barnabas", info.name}
    theirs = [path for path in sys.path if path.endswith("-packages")]
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in theirs))
    return python


def run(*command: str, cwd: Path, **environment: str) -> str:
    """What it prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env={**inherited, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
