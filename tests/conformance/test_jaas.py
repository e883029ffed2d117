"""JAAS texts as Java reads them: of values as Kafka's JaasConfig does, and of files as the JDK does."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.security.jaas import JaasEntry, JaasError, parse_file, parse_value
from tests.conformance.kafka_jars import require_classpath

pytestmark = [pytest.mark.conformance, pytest.mark.explores]

SOURCE = Path(__file__).parent / "java" / "JavaJaas.java"
PIECES = (
    *("M", "org.a.B$C", "required", "OPTIONAL", "maybe", "a", "user_b", "k-x", "_z", "K", "x9", "ä", "✓"),
    *("=", "=", "=", ";", ";", "{", "}", "1", "-1", "-", ".5", "9x", "*", "a*", ",", "\x7f", "\x85"),
    *(
        '"v"',
        "'w'",
        '"a b=;"',
        r'"\"q\""',
        r'"\101\7\400"',
        r'"\n\t\x"',
        '""',
        "/* c */",
        "// c\n",
        "/ c\n",
        "\n",
    ),
)
FORMS = (
    "M required {};",
    "M required a={} b={};",
    "M required user_a={};",
    "{} required;",
    "M {} a=x;",
    "{}",
)
STRICTER = ("does not end on its line", "system properties", "an option's name, or ;", "class is empty")
"""What is rejected here alone, as the module's docstring says."""


@pytest.fixture(scope="module")
def java() -> Iterator[subprocess.Popen[str]]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", require_classpath(), str(SOURCE)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="ascii", text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def asked(java: subprocess.Popen[str], *words: str) -> str:
    assert java.stdin is not None
    assert java.stdout is not None
    java.stdin.write(" ".join(words) + "\n")
    java.stdin.flush()
    return java.stdout.readline().rstrip("\n")


def shown(entries: Sequence[JaasEntry]) -> str:
    """As JavaJaas shows them."""

    def word(text: str) -> str:
        return "x" + text.encode().hex()

    lines = ["entries"]
    for entry in entries:
        options = sorted(f"{word(key)}={word(value)}" for key, value in entry.options.items())
        lines += ["|", word(entry.login_module), word(entry.control_flag.lower()), *options]
    return " ".join(lines)


def random_text(chance: random.Random) -> str:
    def some() -> str:
        count = chance.choice((1, 1, 2, 3, 5))
        return chance.choice((" ", " ", "")).join(chance.choice(PIECES) for _ in range(count))

    form = chance.choice(FORMS)
    return form.format(*(some() for _ in range(form.count("{}"))))


def test_values(java: subprocess.Popen[str]) -> None:
    chance = random.Random(20)
    accepted = 0
    for _ in range(4000):
        text = random_text(chance)
        theirs = asked(java, "value", text.encode().hex())
        try:
            ours = shown([parse_value(text)])
        except JaasError as error:
            if theirs.count("|") == 1 and any(reason in str(error) for reason in STRICTER):
                continue
            ours = "error"
        if theirs.count("|") != 1:  # Kafka rejects these one step later
            theirs = "error"
        assert ours == theirs, text
        accepted += ours != "error"
    assert accepted > 200


def test_files(java: subprocess.Popen[str]) -> None:
    chance = random.Random(21)
    accepted = 0
    for _ in range(1500):
        entry = random_text(chance).removesuffix(";")
        text = chance.choice(
            ("K {{ {}; }};", "K {{ {}; N required; }};", "A {{ }}; K {{ {}; }};", "{};")
        ).format(entry)
        theirs = asked(java, "file", "K", text.encode().hex())
        try:
            contexts = parse_file(text)
            ours = shown(contexts["K"]) if contexts.get("K") else "none"
        except JaasError as error:
            if theirs != "error" and any(reason in str(error) for reason in STRICTER):
                continue
            ours = "error"
        assert ours == theirs.replace("entries", "none") if theirs == "entries" else ours == theirs, text
        accepted += ours not in ("error", "none")
    assert accepted > 100
