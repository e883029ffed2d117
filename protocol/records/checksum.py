"""CRC-32C, the checksum of record batches."""

from __future__ import annotations

from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _load() -> Callable[..., int]:
    """The function out of the crc32c package's extension module, without the package around it.

    The package itself imports its command line and importlib.metadata: 25 to 50 ms of the half second that
    the broker has to start in, against 1 ms for the extension alone.
    """
    package = PathFinder.find_spec("crc32c")
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations) if package else None
    module: Any = spec.loader.create_module(spec) if spec and spec.loader else None
    if spec is None or spec.loader is None or module is None:
        import crc32c as module
    else:
        spec.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


crc32c = _load()
