"""The CRC-32C function, loaded with or without its package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.protocol.records import checksum


def test_the_check_value() -> None:
    for buffer_type in (bytes, bytearray, memoryview):
        assert checksum.crc32c(buffer_type(b"123456789")) == 0xE3069283


def test_the_package_of_the_function_is_not_imported() -> None:
    """Its import would cost tens of milliseconds at the start of the broker."""
    code = (
        "import sys, barnabas.protocol.records.batch; print('importlib.metadata' in "
        "sys.modules, 'cramjam' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


class NothingFound:
    """A finder that finds no package."""

    @staticmethod
    def find_spec(*_: object) -> None:
        return None


def test_a_package_of_another_layout_is_imported_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "PathFinder", NothingFound)
    assert checksum._load()(b"123456789") == 0xE3069283
