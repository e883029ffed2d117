"""No modules that import each other in a circle: not at the top, not under TYPE_CHECKING, not inside functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import grimp

PACKAGES: Final = ("barnabas", "bench")


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imported = {
        module: {
            other
            for other in graph.find_modules_directly_imported_by(module)
            if other not in _ancestors(module)
        }
        for module in graph.modules
    }
    assert [sorted(circle) for circle in circles(imported)] == []


def test_a_circle_is_found() -> None:
    imported = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"e"}}
    assert [sorted(circle) for circle in circles(imported)] == [["a", "b", "c"]]


def _ancestors(module: str) -> set[str]:
    """The packages that a module is in: `from package import module` imports the package as well."""
    parts = module.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts))}


def circles(imported: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """The strongly connected components with more than one module: each is a circle, or several that share modules."""
    reachable = {module: _reachable(imported, module) for module in imported}
    done: set[str] = set()
    for module in sorted(imported):
        if module not in done:
            circle = {other for other in reachable[module] if module in reachable[other]}
            done |= circle
            if len(circle) > 1:
                yield circle


def _reachable(imported: Mapping[str, set[str]], start: str) -> set[str]:
    found = {start}
    left = [start]
    while left:
        for other in imported[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found
