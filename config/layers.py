"""The layers that make a configuration, weakest first, each setting with the place that it comes from.

    defaults < profile < server.properties < KAFKA_* environment < --override
             < the cluster's default < this broker's own

The last two are dynamic (KIP-226): they lie in the metadata and may change while the broker runs (dynamic.py). A layer
is a list of settings as text. broker_config.py parses and resolves them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.config import environment, profiles
from barnabas.config.keys import ConfigError
from barnabas.config.properties import PropertiesError, decode, read_properties


class Source(IntEnum):
    """The layer that an effective value comes from; a greater one wins."""

    DEFAULT = 0
    PROFILE = 1
    FILE = 2
    ENVIRONMENT = 3
    OVERRIDE = 4
    DYNAMIC_DEFAULT = 5
    DYNAMIC_BROKER = 6

    @property
    def is_dynamic(self) -> bool:
        """True for the layers that lie in the metadata and may change while the broker runs."""
        return self >= Source.DYNAMIC_DEFAULT


class Setting(NamedTuple):
    """A key and its value as text, with its layer and the place to name in messages ("server.properties line 4")."""

    key: str
    text: str
    source: Source
    place: str

    def __repr__(self) -> str:  # without the text: it may be a password
        return f"<Setting {self.key} from {self.place}>"


class InvalidConfigError(Exception):
    """All errors of a configuration at once; one line for each in the message.

    `messages` are the ConfigMessages found on the way, for a complete report.
    """

    def __init__(self, errors: list[ConfigError], messages: Sequence[object] = ()) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors
        self.messages = messages

    @property
    def answer(self) -> str:
        """The message of the response to a client, one line for each error."""
        return "\n".join(error.answer for error in self.errors)


def from_profile(name: str) -> Iterator[Setting]:
    """The settings of a profile, which must exist, and its name as the first of them."""
    yield Setting("barnabas.profile", name, Source.PROFILE, f"profile {name}")
    for key, text in profiles.PROFILES[name].items():
        yield Setting(key, text, Source.PROFILE, f"profile {name}")


def from_file(name: str, data: bytes) -> Iterator[Setting]:
    """The settings of a properties file; raises InvalidConfigError when it cannot be read as one."""
    try:
        properties = read_properties(decode(data))
    except PropertiesError as error:
        raise InvalidConfigError([ConfigError(f"line {error.line}", None, error.message, name)]) from None
    for property_ in properties:
        yield Setting(property_.key, property_.value, Source.FILE, f"{name} line {property_.line}")


def from_environment(environ: Mapping[str, str]) -> Iterator[Setting]:
    """The settings that KAFKA_* variables make."""
    for key, text, variable in environment.settings_from(environ):
        yield Setting(key, text, Source.ENVIRONMENT, f"environment variable {variable}")


def from_overrides(overrides: Iterable[str]) -> Iterator[Setting]:
    """The settings of `--override key=value` arguments; raises InvalidConfigError for one without `=`."""
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise InvalidConfigError([ConfigError(override, None, "is not key=value", "--override")])
        yield Setting(key.strip(), text, Source.OVERRIDE, "--override")


def from_cluster_default(texts: Mapping[str, str]) -> Iterator[Setting]:
    """The settings of the whole cluster's default, as the metadata has them."""
    for key, text in texts.items():
        yield Setting(key, text, Source.DYNAMIC_DEFAULT, "the cluster's dynamic default")


def from_this_broker(texts: Mapping[str, str]) -> Iterator[Setting]:
    """The settings of this broker alone, as the metadata has them."""
    for key, text in texts.items():
        yield Setting(key, text, Source.DYNAMIC_BROKER, "this broker's dynamic configuration")
