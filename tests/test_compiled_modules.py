"""What mypyc does otherwise than Python is not leaned on in the modules that it compiles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.compiled import MODULES

ROOT = Path(__file__).parents[1]
FOR_READERS = {"RecordsGoneError", "RecordTooLargeError"}
"""Errors whose cause nobody asks for: it stands in a traceback all the same, as what was being handled."""


def nodes(module: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text()))


@pytest.mark.parametrize("module", MODULES)
def test_a_cause_is_given_to_the_error_itself(module: str) -> None:
    """Of `raise error from cause` mypyc leaves the cause away."""
    for node in nodes(module):
        if not isinstance(node, ast.Raise) or node.cause is None:
            continue
        raised = node.exc
        assert isinstance(raised, ast.Call), f"{module}:{node.lineno}"
        if isinstance(raised.func, ast.Name) and raised.func.id in FOR_READERS:
            continue
        given = [*raised.args, *(keyword.value for keyword in raised.keywords)]
        assert ast.dump(node.cause) in map(ast.dump, given), f"{module}:{node.lineno}"


@pytest.mark.parametrize("module", MODULES)
def test_nobody_reads_slots(module: str) -> None:
    """A compiled class has none."""
    for node in nodes(module):
        assert not (isinstance(node, ast.Attribute) and node.attr == "__slots__"), f"{module}:{node.lineno}"
