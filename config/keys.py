"""The definition of a configuration key.

A catalogue module declares its keys through a KeySet, facts on the first line and text on the next:

    keys = KeySet()
    NUM_PARTITIONS = keys.int_("num.partitions", 1, MEDIUM, ACTED, at_least(1)).doc(
        "How many partitions a topic gets when its creator names no number."
    )

`NUM_PARTITIONS` is then a ConfigKey[int], and `broker_config[NUM_PARTITIONS]` an int for the type checker.
The facts are those of org.apache.kafka.common.config.ConfigDef.ConfigKey and, for what can change while the
broker runs, of KIP-226.
"""

from enum import Enum, IntEnum
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

from barnabas.config.validators import ListOf, Range, Validator
from barnabas.config.values import HIGHEST, TYPE_REQUIREMENTS, ConfigType, format_value, parse_value

T = TypeVar("T")


class Importance(IntEnum):
    """How much a user should care about a key (ConfigDef.Importance)."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


class DynamicMode(Enum):
    """Whether a broker key can change while the broker runs, and for whom (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Use(NamedTuple):
    """Whether Barnabas acts on a key; where it does not, `note` gives the reason and the alternative."""

    acted_on: bool
    note: str = ""
    in_cluster: bool = False
    """Whether a member of a cluster acts on it, although a node that is alone does not."""


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = DynamicMode.READ_ONLY, DynamicMode.PER_BROKER, DynamicMode.CLUSTER_WIDE


class ConfigError(ValueError):
    """A key has an invalid value.

    `key` and `value` are as they were given; `requirement` states the valid values ("must be ..."); `place` states the
    origin of the value ("server.properties line 12"), or is empty. `phrase` is Kafka's own message, where it differs
    from that for most values.
    """

    def __init__(
        self,
        key: str,
        value: str | None,
        requirement: str,
        place: str = "",
        *,
        phrase: str | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.requirement = requirement
        self.place = place
        self.phrase = phrase
        setting = key if value is None else f"{key}={value}"
        super().__init__(f"{place}: {setting} {requirement}" if place else f"{setting} {requirement}")

    def at(self, place: str) -> "ConfigError":
        """The same error with the place of the value."""
        return ConfigError(self.key, self.value, self.requirement, place, phrase=self.phrase)

    @property
    def answer(self) -> str:
        """The message of the response to a client: Kafka's phrase, which tools recognise, and the requirement."""
        if self.phrase is not None:
            return f"{self.phrase} ({self.at('')})"
        if self.value is None:
            return str(self)
        return f"Invalid value {self.value} for configuration {self.key}: {self.requirement}"


class Synonym(NamedTuple):
    """A broker key that gives a topic key its value where the topic has none; `factor` converts its unit."""

    name: str
    factor: int


class ConfigKey(Generic[T]):
    """One configuration key.

    name, type, default (None: unset), validator, importance, dynamic and internal are Apache Kafka's facts;
    documentation is our text; use says whether Barnabas acts on the key; synonyms (topic keys only) are the
    broker keys behind it.
    """

    __slots__ = (
        "default", "documentation", "dynamic", "importance", "internal",
        "name", "synonyms", "type", "use", "validator",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        type: ConfigType,  # noqa: A002 (Kafka's own word for it)
        default: T,
        importance: Importance,
        use: Use,
        *,
        validator: Validator | None,
        dynamic: DynamicMode,
        internal: bool,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.importance = importance
        self.use = use
        self.validator = validator
        self.dynamic = dynamic
        self.internal = internal
        self.documentation = ""
        self.synonyms: tuple[Synonym, ...] = ()

    def doc(self, text: str) -> Self:
        """Sets the documentation: what the key does, in a sentence or two."""
        self.documentation = text
        return self

    def follows(self, *broker_keys: "ConfigKey[Any] | tuple[ConfigKey[Any], int]") -> Self:
        """Names the broker keys behind a topic key, of which the first that is set wins; a factor for other units."""
        pairs = [key if isinstance(key, tuple) else (key, 1) for key in broker_keys]
        self.synonyms = tuple(Synonym(key.name, factor) for key, factor in pairs)
        return self

    @property
    def acted_on(self) -> bool:
        """True when Barnabas does what the key says."""
        return self.use.acted_on

    @property
    def sensitive(self) -> bool:
        """True when the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def requirement(self) -> str:
        """What a value must be, as the end of "must be ..."."""
        if self.validator is None:
            return TYPE_REQUIREMENTS[self.type]
        if self.type in {ConfigType.STRING, ConfigType.LIST}:
            return self.validator.requirement
        noun = "a decimal number" if self.type is ConfigType.DOUBLE else "a whole number"
        if isinstance(self.validator, Range) and self.validator.high is None and self.type in HIGHEST:
            return f"{noun} from {self.validator.low} to {HIGHEST[self.type]}"
        comma = "" if self.validator.requirement.startswith("from ") else ","
        return f"{noun}{comma} {self.validator.requirement}"

    def parse(self, text: str) -> T:
        """The value that `text` stands for; raises ConfigError when it is of another type or out of range."""
        try:
            value = parse_value(self.type, text)
        except ValueError:
            raise self.error(text) from None
        if isinstance(self.validator, ListOf):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None and not self.validator.accepts(value):
            raise self.error(text)
        return cast("T", value)

    def format(self, value: T) -> str | None:
        """A value as Kafka writes it in DescribeConfigs."""
        return format_value(self.type, value)

    def error(
        self, text: str | None, requirement: str | None = None, phrase: str | None = None
    ) -> ConfigError:
        """The error for an invalid text; a password's text is not repeated in it."""
        shown = "[hidden]" if self.sensitive else text
        return ConfigError(self.name, shown, f"must be {requirement or self.requirement}", phrase=phrase)

    def __repr__(self) -> str:
        return f"<ConfigKey {self.name}>"


class Declare(Generic[T]):
    """Declares keys of one type, by name, default, importance, use, validator and dynamic mode.

    `internal` keys are left out of DescribeConfigs and of the reference, as in Kafka.
    """

    def __init__(self, by_name: dict[str, ConfigKey[Any]], type_: ConfigType) -> None:
        self.by_name = by_name
        self.type = type_

    def __call__(  # noqa: PLR0917 (a declaration reads as a row of a table)
        self,
        name: str,
        default: T,
        importance: Importance,
        use: Use,
        validator: Validator | None = None,
        dynamic: DynamicMode = READ_ONLY,
        *,
        internal: bool = False,
    ) -> ConfigKey[T]:
        assert name not in self.by_name, f"{name} is declared twice"
        key = ConfigKey(
            name, self.type, default, importance, use, validator=validator, dynamic=dynamic, internal=internal
        )
        self.by_name[name] = key
        return key


class KeySet:
    """The keys of one catalogue module, and a way to declare them for each type; optional_* may be None."""

    def __init__(self) -> None:
        self.by_name: dict[str, ConfigKey[Any]] = {}
        self.boolean: Declare[bool] = Declare(self.by_name, ConfigType.BOOLEAN)
        self.int_: Declare[int] = Declare(self.by_name, ConfigType.INT)
        self.short: Declare[int] = Declare(self.by_name, ConfigType.SHORT)
        self.long: Declare[int] = Declare(self.by_name, ConfigType.LONG)
        self.double: Declare[float] = Declare(self.by_name, ConfigType.DOUBLE)
        self.string: Declare[str] = Declare(self.by_name, ConfigType.STRING)
        self.list_: Declare[tuple[str, ...]] = Declare(self.by_name, ConfigType.LIST)
        self.optional_int: Declare[int | None] = Declare(self.by_name, ConfigType.INT)
        self.optional_long: Declare[int | None] = Declare(self.by_name, ConfigType.LONG)
        self.optional_string: Declare[str | None] = Declare(self.by_name, ConfigType.STRING)
        self.optional_list: Declare[tuple[str, ...] | None] = Declare(self.by_name, ConfigType.LIST)
        self.class_name: Declare[str | None] = Declare(self.by_name, ConfigType.CLASS)
        self.password: Declare[str | None] = Declare(self.by_name, ConfigType.PASSWORD)
