"""Parses and formats configuration values by the rules of Apache Kafka's ConfigDef.

Values in Python: BOOLEAN is bool; INT, SHORT and LONG are int; DOUBLE is float; LIST is a tuple of str; the
rest are str.
"""

from enum import IntEnum
from typing import Any, Final


class ConfigType(IntEnum):
    """ConfigDef.Type; the numbers are those of the ConfigType field in DescribeConfigs responses."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


TYPE_REQUIREMENTS = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.INT: "a whole number from -2147483648 to 2147483647",
    ConfigType.SHORT: "a whole number from -32768 to 32767",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a decimal number",
    ConfigType.STRING: "text",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "text",
}

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1

# The bounds that a user may exceed by accident, as error messages state them.
HIGHEST = {ConfigType.INT: INT_MAX, ConfigType.SHORT: (1 << 15) - 1}

_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}


def parse_value(config_type: ConfigType, text: str) -> Any:
    """The value that a text stands for; raises ValueError for other text (ConfigDef.parseType)."""
    text = text.strip()
    if config_type in _BITS:
        return _parse_integer(text, _BITS[config_type])
    if config_type is ConfigType.BOOLEAN:
        return _parse_boolean(text)
    if config_type is ConfigType.DOUBLE:
        return _parse_double(text)
    if config_type is ConfigType.LIST:
        return tuple(entry.strip() for entry in text.split(",")) if text else ()
    return text


def format_value(config_type: ConfigType, value: Any) -> str | None:
    """A value as Kafka writes it in DescribeConfigs; None stays None (ConfigDef.convertToString)."""
    if value is None:
        return None
    if config_type is ConfigType.BOOLEAN:
        return "true" if value else "false"
    if config_type is ConfigType.DOUBLE:
        return _format_double(value)
    if config_type is ConfigType.LIST:
        return ",".join(value)
    return str(value)


def _parse_integer(text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isdecimal():  # Python would take 1_000 and inner blanks; Java does not
        raise ValueError(text)
    value = int(text)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(text)
    return value


def _parse_boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in {"true", "false"}:
        raise ValueError(text)
    return lower == "true"


def _parse_double(text: str) -> float:
    bare = text[1:] if text[:1] in {"+", "-"} else text
    if bare in {"NaN", "Infinity"}:
        return float(text)
    # A digit must come first or after the point: so "inf", "nan" and "_1", which only Python knows, stay out.
    if "_" in bare or bare[:1] not in set("0123456789."):
        raise ValueError(text)
    return float(text[:-1] if text[-1] in "dDfF" else text)


def _format_double(value: float) -> str:
    """Java's Double.toString: plain from a thousandth to ten million, otherwise in powers of ten."""
    if value - value != 0:  # NaN or infinite
        return {"nan": "NaN", "inf": "Infinity"}.get(repr(value), "-Infinity")
    return repr(value) if value == 0 or 1e-3 <= abs(value) < 1e7 else _scientific(value)


def _scientific(value: float) -> str:
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    shift = len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0"))) - 1
    power = shift + int(exponent or 0)
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"
