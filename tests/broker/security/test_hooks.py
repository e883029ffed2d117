"""Classes of the operator's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.security.hooks import HookError, is_hook, load_hook


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_hooks_of_a_test.py").write_text("class Own:\n    def check(self): ...\n\nvalue = 1\n")
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
