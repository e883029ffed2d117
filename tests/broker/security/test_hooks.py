"""Classes of the operator's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.security.hooks import HookError, is_hook, load_hook, make_hook
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME
from barnabas.config.keys import ConfigError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_hooks_of_a_test.py").write_text(
        "class Own:\n    def check(self): ...\n\nclass Faulty:\n    def __init__(self): 1 / 0\n\nvalue = 1\n"
    )
    (tmp_path / "broken_hooks_of_a_test.py").write_text("raise RuntimeError('at import')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "own_hooks_of_a_test"


def test_a_class_is_loaded(module: str) -> None:
    assert load_hook(f"python:{module}:Own", "check").__name__ == "Own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("org.example.Own", "not of the form"),
        ("python:", "not of the form"),
        ("python:own_hooks_of_a_test", "not of the form"),
        ("python::Own", "not of the form"),
        ("python:no_such_module_anywhere:Own", "cannot be imported"),
        ("python:broken_hooks_of_a_test:Own", "cannot be imported: at import"),
        ("python:own_hooks_of_a_test:Other", "has no class Other"),
        ("python:own_hooks_of_a_test:value", "has no class value"),
    ],
)
def test_what_cannot_be_loaded(module: str, text: str, message: str) -> None:
    with pytest.raises(HookError, match=message):
        load_hook(text)


def test_a_class_must_have_its_methods(module: str) -> None:
    with pytest.raises(HookError, match="has no method authenticate, other"):
        load_hook(f"python:{module}:Own", "check", "authenticate", "other")


def test_the_form() -> None:
    assert is_hook("python:a:B")
    assert not is_hook("org.example.Python")


def test_an_object_is_made_of_it(module: str) -> None:
    assert type(make_hook(AUTHORIZER_CLASS_NAME, f"python:{module}:Own", "check")).__name__ == "Own"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Other", "module own_hooks_of_a_test has no class Other"),
        ("Own", "class Own has no method authorize"),
        ("Faulty", "class Faulty has no method authorize"),
    ],
)
def test_the_error_names_the_key_the_value_and_the_reason(module: str, name: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_hook(AUTHORIZER_CLASS_NAME, f"python:{module}:{name}", "authorize")
    start = f"authorizer.class.name=python:{module}:{name} must be python:module:Class for a class that can be loaded"
    assert str(caught.value).startswith(f"{start}; {why}")


def test_a_class_that_cannot_be_made(module: str) -> None:
    with pytest.raises(
        ConfigError, match=r"must be .* made without arguments; .*ZeroDivisionError: division"
    ):
        make_hook(AUTHORIZER_CLASS_NAME, f"python:{module}:Faulty")
