"""One directory under two names: it is said which, by which key, before anything is locked or made."""

from pathlib import Path

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError


def refusal(*settings: str) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        BrokerConfig.of(None, overrides=settings)
    (error,) = caught.value.errors
    return str(error)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a directory `there` and a link to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    return tmp_path


@pytest.mark.parametrize("name", ["there", "new"])
@pytest.mark.parametrize(
    "spelling", ["{home}/{name}/", "{home}//{name}", "{home}/{name}/../{name}", "{name}"]
)
def test_another_spelling_of_the_same_directory(home: Path, name: str, spelling: str) -> None:
    first, second = f"{home}/{name}", spelling.format(home=home, name=name)
    assert refusal(f"log.dirs={first},{second}") == (
        f"--override: log.dirs={first},{second} must be different directories: {first} and {second} are the same one"
    )


def test_a_link_is_the_directory_that_it_leads_to(home: Path) -> None:
    text = refusal(f"log.dir={home}/link,{home}/other,{home}/there")
    assert f"log.dir={home}/link,{home}/other,{home}/there must be different directories" in text
    assert f"{home}/link and {home}/there are the same one" in text


def test_detours_over_a_link_are_followed(home: Path) -> None:
    """There `deep/..` is not where it seems to be."""
    (home / "there" / "deep").mkdir()
    (home / "deep").symlink_to("there/deep")
    BrokerConfig.of(None, overrides=[f"log.dirs={home}/deep/../x,{home}/x"])
    assert "are the same one" in refusal(f"log.dirs={home}/deep/../x,{home}/there/x")


def test_metadata_log_dir_is_spelled_as_in_log_dirs(home: Path) -> None:
    dirs = f"log.dirs={home}/there,{home}/other"
    for right in (f"{home}/there", f"{home}/there/", f"{home}/elsewhere"):
        BrokerConfig.of(None, overrides=[dirs, f"metadata.log.dir={right}"])
    assert refusal(dirs, f"metadata.log.dir={home}/link") == (
        f"--override: metadata.log.dir={home}/link must be written as in log.dirs, where the same directory is "
        f"{home}/there"
    )


def test_different_directories_have_no_errors(home: Path) -> None:
    config = BrokerConfig.of(None, overrides=[f"log.dirs={home}/there,{home}/thereabouts,{home}/there"])
    assert config.log_dirs == (f"{home}/there", f"{home}/thereabouts"), "a repeated entry is dropped"


def test_an_impossible_path_is_left_to_the_start() -> None:
    BrokerConfig.of(None, overrides=["log.dirs=/a\0b,/c"])
