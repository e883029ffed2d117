"""The file with the secret for salts of unknown users."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.startup.scram_secret import FILE_NAME, SECRET_BYTES, scram_secret


def test_the_secret_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    secret = scram_secret(str(tmp_path))
    assert len(secret) == SECRET_BYTES
    assert scram_secret(str(tmp_path)) == secret
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("damaged", [b"", b"short", bytes(SECRET_BYTES + 1)])
def test_a_damaged_file_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(damaged)
    secret = scram_secret(str(tmp_path))
    assert scram_secret(str(tmp_path)) == secret != damaged


def test_what_a_crash_has_left_is_replaced_and_closed_to_others(tmp_path: Path) -> None:
    left = tmp_path / f"{FILE_NAME}.tmp"
    left.write_bytes(b"x" * 100)
    left.chmod(0o644)
    secret = scram_secret(str(tmp_path))
    assert (tmp_path / FILE_NAME).read_bytes() == secret
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        scram_secret(str(tmp_path / "nowhere"))
