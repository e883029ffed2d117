"""The client of a schema registry over HTTP, for reading: Confluent's API, which Karapace and Apicurio serve as well.

    GET /schemas/ids/{id}                            the schema of values with this id
    GET /subjects/{subject}/versions/{version}       the schema of a subject; "latest" is a version; deleted=true with
                                                     what others refer to, as Confluent's clients ask for it

Answers are cached: a registry never changes what an id means.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.pipeline.decoding.errors import RegistryError, SchemaError
from barnabas.pipeline.decoding.spec import ValueFormat

TIMEOUT_S: Final = 10.0
_NOT_FOUND: Final = (40401, 40402, 40403)
"""Of a subject, a version, a schema, in the body of a 404. Proxies and wrong addresses answer 404, too."""
_MAX_REFERENCES: Final = 200
_FORMATS: Final[dict[str, ValueFormat]] = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}
Get = Callable[[str], Any]
"""Gets the JSON at a path. Raises LookupError when the registry has nothing there."""


class Registered(NamedTuple):
    """A schema with those that it refers to: the texts of a `DecodingSpec`."""

    value_format: ValueFormat
    texts: tuple[str, ...]


class Registry:
    """One registry; `get` is for tests. Not for several threads at once."""

    def __init__(self, url: str, *, get: Get | None = None) -> None:
        self._get = get or HttpGet(url)
        self._by_id: dict[int, Registered] = {}

    def by_id(self, schema_id: int) -> Registered | None:
        """The schema with an id; None when the registry lacks it or part of it: the next call asks again. Raises
        RegistryError. A value may begin with any id: a fault in its schema concerns that value alone.
        """
        if schema_id not in self._by_id:
            try:
                answer = self._get(f"/schemas/ids/{schema_id}?format=serialized")
            except LookupError:
                return None
            try:
                self._by_id[schema_id] = self._registered(answer)
            except SchemaError:
                return None
        return self._by_id[schema_id]

    def latest(self, subject: str) -> Registered:
        """The latest schema of a subject's values. SchemaError where there is no such subject, RegistryError."""
        return self._registered(self._version(subject, "latest"))

    def _version(self, subject: str, version: int | str, more: str = "") -> Mapping[str, Any]:
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}?format=serialized{more}"
        try:
            answer: Mapping[str, Any] = self._get(path)
        except LookupError as error:
            raise SchemaError(f"the registry has no version {version} of the subject {subject!r}") from error
        return answer

    def _registered(self, answer: Mapping[str, Any]) -> Registered:
        kind = answer.get("schemaType", "AVRO")
        if kind not in _FORMATS or not isinstance(answer.get("schema"), str):
            raise RegistryError(
                f"the registry answers with no schema that is known here: {str(answer)[:200]}"
            )
        texts: dict[str, str] = {}
        self._collect(answer, texts)
        return Registered(_FORMATS[kind], (*texts.values(), answer["schema"]))

    def _collect(self, answer: Mapping[str, Any], texts: dict[str, str]) -> None:
        """The texts that a schema refers to, by their names, each after those that it refers to itself."""
        for reference in answer.get("references") or ():
            name = reference["name"]
            if name in texts:
                continue
            if len(texts) >= _MAX_REFERENCES:
                raise SchemaError(f"the schema refers to more than {_MAX_REFERENCES} others")
            # An id outlasts the deletion of its subject, and so must the schemas that it refers to.
            found = self._version(reference["subject"], reference["version"], "&deleted=true")
            self._collect(found, texts)
            texts[name] = _imported(name, found)


def _imported(name: str, answer: Mapping[str, Any]) -> str:
    """The text of a schema under the name by which others refer to it."""
    text = str(answer["schema"])
    if answer.get("schemaType") != "PROTOBUF":
        return text
    from barnabas.pipeline.decoding.protobuf_values import named_file

    return named_file(text, name)


class HttpGet:
    """GET below a URL, which may have a user and a password in it."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a registry, such as http://HOST:PORT")
        self._base = urllib.parse.urlunsplit(
            (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")
        )
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username:
            user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._timeout_s = timeout_s

    def __call__(self, path: str) -> Mapping[str, Any]:
        """Raises LookupError when the registry has nothing there, and RegistryError for any other failure."""
        url = self._base.rstrip("/") + path
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            if _says_not_found(error):
                raise LookupError(path) from error
            raise RegistryError(f"{url} answers {error.code} {error.reason}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise RegistryError(f"{url} does not answer: {error}") from error
        if not isinstance(answer, Mapping):
            raise RegistryError(f"{url} does not answer as a registry does: {str(answer)[:200]}")
        return answer


def _says_not_found(error: urllib.error.HTTPError) -> bool:
    with error:
        try:
            answer = json.load(error)
        except (OSError, ValueError, http.client.HTTPException):
            return False
    return isinstance(answer, Mapping) and answer.get("error_code") in _NOT_FOUND
