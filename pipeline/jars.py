"""Jars from Maven Central, copied once into a directory by Maven's dependency plugin.

They lie in ~/.cache/barnabas/jars (BARNABAS_JARS names another place), a folder for each set of coordinates, so that
a session starts without the network and without resolving anything: `spark.jars` names the files.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from barnabas.pipeline.versions import BROUGHT_BY_PYSPARK

MAVEN_LIMIT_S: Final = 900

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>barnabas</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencyManagement>
    <dependencies>
{managed}    </dependencies>
  </dependencyManagement>
  <dependencies>
{dependencies}  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.8.1</version>
      </plugin>
    </plugins>
  </build>
</project>
"""
_DEPENDENCY: Final = """\
      <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>
"""


class JarsMissingError(Exception):
    """Jars could not be fetched; the message is one sentence with the reason."""


def cache() -> Path:
    """The directory of the jars."""
    named = os.environ.get("BARNABAS_JARS")
    place = Path(named).expanduser() if named else Path.home() / ".cache" / "barnabas" / "jars"
    return place.absolute()  # jars are named by URIs


def bring(coordinates: Sequence[str]) -> list[Path]:
    """The jars of these artifacts and of their dependencies that PySpark lacks; from Maven the first time.

    Raises JarsMissingError.
    """
    if not coordinates:
        return []
    directory = cache() / _folder(coordinates)
    if not directory.is_dir():
        _install(directory, coordinates)
    own = {artifact(jar) for jar in _spark_home().glob("jars/*.jar")}
    return [jar for jar in sorted(directory.glob("*.jar")) if artifact(jar) not in own]


def artifact(jar: Path) -> str:
    """The name of a jar without its version, to exclude second versions of Spark's own jars."""
    return re.sub(r"-\d[^-]*(-[^-]*)?\.jar$", "", jar.name)


def _spark_home() -> Path:
    found = find_spec("pyspark")
    locations = [] if found is None else list(found.submodule_search_locations or [])
    return Path(os.environ.get("SPARK_HOME") or (locations[0] if locations else "/nonexistent"))


def _folder(coordinates: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join((*sorted(coordinates), *BROUGHT_BY_PYSPARK)).encode()).hexdigest()
    return f"{coordinates[0].split(':')[1]}-{coordinates[0].split(':')[2]}-{digest[:12]}"


def pom_of(coordinates: Sequence[str], *, are_versions_final: bool = False) -> str:
    """A project for Maven that depends on these artifacts, and does nothing else.

    With final versions they are also the versions of what others of them depend on.
    """
    wanted = "".join(map(_dependency, coordinates))
    return _POM.format(managed=wanted if are_versions_final else "", dependencies=wanted)


def _dependency(coordinate: str) -> str:
    """Of group:artifact:version, or with the jar's classifier as a fourth part."""
    parts = coordinate.split(":", 3)
    return _DEPENDENCY.format(*parts[:3], f"<classifier>{parts[3]}</classifier>" if len(parts) == 4 else "")


def _install(directory: Path, coordinates: Sequence[str]) -> None:
    """Has Maven copy the jars beside their final place, and moves them there in one step."""
    if shutil.which("mvn") is None:
        raise JarsMissingError(
            f"Maven is needed once to bring {', '.join(coordinates)} from Maven Central, "
            "and there is no mvn on the path"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="jars-") as temporary:
        pom, jars = Path(temporary) / "pom.xml", Path(temporary) / "jars"
        pom.write_text(pom_of(coordinates, are_versions_final=True))
        _run_maven(pom, jars)
        try:
            jars.rename(directory)
        except OSError:
            if not directory.is_dir():  # otherwise another process was first
                raise


def _run_maven(pom: Path, jars: Path) -> None:
    command = [
        *("mvn", "-B", "-q", "-f", str(pom), "-DincludeScope=runtime", f"-DoutputDirectory={jars}"),
        f"-DexcludeGroupIds={','.join(BROUGHT_BY_PYSPARK)}",
        "dependency:copy-dependencies",
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise JarsMissingError(f"Maven has not brought the jars within {MAVEN_LIMIT_S} s") from None
    if ran.returncode != 0 or not jars.is_dir():
        lines = [line for line in (ran.stdout + ran.stderr).splitlines() if "ERROR" in line] or [
            "no jars came of it"
        ]
        raise JarsMissingError(f"Maven could not bring the jars: {lines[0].replace('[ERROR]', '').strip()}")
