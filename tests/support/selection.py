"""Which files of tests a run need not even import, for the marks that `-m` excludes.

Half of the tests belong to other commands than `make test`, and importing their files took each of pytest's processes
a quarter of the time until its first test.
"""

from __future__ import annotations

import ast
import re

_MARKS_OF_ALL = re.compile(r"^pytestmark = (\[[^\]]*\]|[^\n]*)", re.MULTILINE)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def excluded(expression: str) -> frozenset[str]:
    """The marks that no selected test can have: `slow` and `spark` for `(a or b) and not slow and not spark`."""
    if not expression:
        return frozenset()
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:  # pytest reports it
        return frozenset()
    return frozenset(_excluded(tree))


def _excluded(tree: ast.expr) -> set[str]:
    match tree:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=mark)):
            return {mark}
        case ast.BoolOp(op=ast.And(), values=operands):
            return set().union(*map(_excluded, operands))
    return set()


def marks_of_all(source: str) -> frozenset[str]:
    """The marks that a file of tests gives to each of them: its `pytestmark`."""
    found = _MARKS_OF_ALL.search(source)
    return frozenset(_MARK.findall(found[1])) if found else frozenset()
