"""Loads the modules with hot loops as Python and compiled, for tests that run on both."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from barnabas.protocol import codec_engine, codec_program

FORMS = ("plain", "compiled")


def in_form(module: ModuleType, form: str) -> Any:
    """The module as Python, even if a compiled one exists, or compiled; skips the test where it is not compiled."""
    if form == "plain":
        return _plain(module)
    if not module.COMPILED:
        pytest.skip(f"{module.__name__} is not compiled here")
    return module


def codec_in_form(form: str) -> Any:
    """The module `protocol.codec_program` over its engine in that form; skips the test where it is not compiled."""
    if form == "compiled":
        in_form(codec_engine, form)
        return codec_program
    program = in_form(codec_program, form)
    program.engine = in_form(codec_engine, form)
    return program


def _plain(module: ModuleType) -> Any:
    stem = module.__name__.rpartition(".")[2]
    name = f"{__name__}.plain_{stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(str(module.__file__)).parent / f"{stem}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
