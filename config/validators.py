"""Validators of configuration values; each states its requirement in words.

Each class stands for one of Apache Kafka's validators (org.apache.kafka.common.config.ConfigDef and friends)
and accepts exactly what that one accepts; tests/conformance/test_config.py compares them on samples.
"""

from collections.abc import Callable


class Validator:
    """Accepts or rejects a parsed value; `requirement` completes the sentence "the value must be ..."."""

    __slots__ = ("requirement",)

    requirement: str

    def accepts(self, value: object) -> bool:
        """True when the value is valid."""
        raise NotImplementedError


class Range(Validator):
    """A number between two bounds, each of which may be missing (ConfigDef.Range)."""

    __slots__ = ("high", "low")

    def __init__(self, low: float | None, high: float | None) -> None:
        self.low = low
        self.high = high
        if high is None:
            self.requirement = f"at least {low}"
        elif low is None:
            self.requirement = f"at most {high}"
        else:
            self.requirement = f"from {low} to {high}"

    def accepts(self, value: object) -> bool:
        assert isinstance(value, (int, float))
        # Written as rejections, so that NaN passes as it does in Kafka.
        too_low = self.low is not None and value < self.low
        too_high = self.high is not None and value > self.high
        return not (too_low or too_high)


class OneOf(Validator):
    """One of some words (ConfigDef.ValidString, or CaseInsensitiveValidString)."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case
        self.requirement = "one of " + ", ".join(words) + (" in any case" if ignore_case else "")

    def accepts(self, value: object) -> bool:
        return str(value).upper() in self.words if self.ignore_case else value in self.words


class ListOf(Validator):
    """A list of some words, or of any words when none are named (ConfigDef.ValidList).

    Repeated entries are no error: Kafka drops them, and ConfigKey.parse does too.
    """

    __slots__ = ("may_be_empty", "words")

    def __init__(self, *words: str, may_be_empty: bool = False) -> None:
        self.words = words
        self.may_be_empty = may_be_empty
        entries = "any of " + ", ".join(words) if words else "non-empty entries"
        self.requirement = f"a comma-separated list of {entries}" + ("" if may_be_empty else ", at least one")

    def accepts(self, value: object) -> bool:
        assert isinstance(value, tuple)
        if not value:
            return self.may_be_empty
        return all(entry and (not self.words or entry in self.words) for entry in value)


class NonEmpty(Validator):
    """A string that is not empty (ConfigDef.NonEmptyString)."""

    __slots__ = ()
    requirement = "a non-empty string"

    def accepts(self, value: object) -> bool:
        return value != ""


class Satisfies(Validator):
    """A rule given as a function, for the few that are used once."""

    __slots__ = ("test",)

    def __init__(self, test: Callable[[object], bool], requirement: str) -> None:
        self.test = test
        self.requirement = requirement

    def accepts(self, value: object) -> bool:
        return self.test(value)


def is_authorizer_class(value: object) -> bool:
    """True for the values of authorizer.class.name: nothing, Kafka's StandardAuthorizer, python:module:Class."""
    name = str(value)
    if name in {"", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}:
        return True
    prefix, _, rest = name.partition(":")
    module, _, of_module = rest.partition(":")
    return prefix == "python" and bool(module.strip()) and bool(of_module.strip())


def at_least(low: float) -> Range:
    """A number no smaller than `low`."""
    return Range(low, None)


def between(low: float, high: float) -> Range:
    """A number from `low` to `high`, both included."""
    return Range(low, high)


def is_throttled_replica_list(value: object) -> bool:
    """True for what *.replication.throttled.replicas takes: nothing, `*`, or partition:broker pairs.

    The Java class is org.apache.kafka.storage.internals.log.ThrottledReplicaListValidator.
    """
    assert isinstance(value, tuple)
    return "".join(value) == "*" or all(not entry or _is_number_pair(entry) for entry in value)


def _is_number_pair(entry: str) -> bool:
    partition, colon, broker = entry.partition(":")
    return bool(colon) and entry.isascii() and partition.isdecimal() and broker.isdecimal()


def is_list_of_voters(value: object) -> bool:
    """True for a list of id@host:port (org.apache.kafka.raft.QuorumConfig.parseVoterConnections)."""
    assert isinstance(value, tuple)
    return all(_is_voter(entry) for entry in value)


def is_list_of_hosts(value: object) -> bool:
    """True for a list of host:port (org.apache.kafka.raft.QuorumConfig.parseBootstrapServers)."""
    assert isinstance(value, tuple)
    return all(_is_host_and_port(entry) for entry in value)


def _is_voter(entry: str) -> bool:
    voter, at, address = entry.partition("@")
    return bool(at) and voter.removeprefix("-").isdecimal() and _is_host_and_port(address)


def _is_host_and_port(address: str) -> bool:
    """True for what org.apache.kafka.common.utils.Utils takes: scheme://host:port, of which scheme and host may be
    missing."""
    scheme, separator, rest = address.partition("://")
    if separator and _has_only(scheme, "-%._"):
        address = rest
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return bool(colon) and port.isascii() and port.isdecimal() and _has_only(host, "-%._:")


def _has_only(text: str, others: str) -> bool:
    """True when the text is made of ASCII letters, digits and these other characters."""
    return all((character.isascii() and character.isalnum()) or character in others for character in text)


def is_list_of_http_hosts(value: object) -> bool:
    """True for a list of names, of .name for a name and all below it, and of * for any name. No Kafka key has this."""
    assert isinstance(value, tuple)
    return all(entry == "*" or (entry.strip(".") != "" and _has_only(entry, "-._")) for entry in value)


def is_share_offset_reset(value: object) -> bool:
    """True for latest, earliest and by_duration:<ISO 8601 duration> (ShareGroupAutoOffsetResetStrategy)."""
    text = str(value)
    return text in {"latest", "earliest"} or (text.startswith("by_duration:") and _is_duration(text[12:]))


def _is_duration(text: str) -> bool:
    """True for what java.time.Duration.parse takes and is not negative: PnDTnHnMn.nS in any case."""
    from re import IGNORECASE, fullmatch  # rarely needed, and its first use costs milliseconds

    number = r"([+-]?[0-9]+)"
    pattern = rf"\+?P(?:{number}D)?(T(?:{number}H)?(?:{number}M)?(?:{number}(?:[.,]([0-9]{{0,9}}))?S)?)?"
    match = fullmatch(pattern, text, IGNORECASE)
    return match is not None and match[2] != "T" and any(match.group(1, 3, 4, 5)) and "-" not in text
