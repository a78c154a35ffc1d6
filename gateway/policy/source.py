"""Reads a folder of policies: every statement parsed and validated against the schema, each mistake with file and line.

Cedar itself reports no line, so a file is cut into statements first. Grammar: https://docs.cedarpolicy.com/policies/syntax-grammar.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cedarpy

from gateway.names import Kind

SCHEMA_FILE: Final = "schema.cedarschema"
SUFFIX: Final = ".cedar"
ENTITY_OF_KIND: Final[Mapping[Kind, str]] = {
    kind: "".join(word.capitalize() for word in kind.value.split("_")) for kind in Kind
}
"""Cedar's type of each kind of object: `VectorStore` of `vector_store`."""

_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MAX_ID: Final = 64
_PIECE: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|;|\s+|[^\s";/]+|.', re.DOTALL)
_WHERE: Final = re.compile(r'^for policy `policy0`, | for Action::"[^"]*"$')


class PolicyError(Exception):
    """All that is wrong with a folder of policies, one line each: `file:line: mistake`."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))


@dataclass(frozen=True, slots=True)
class Statement:
    """One policy or declaration, and where it begins: the line of its first word."""

    file: str
    line: int
    text: str

    def mistake(self, what: object) -> str:
        return f"{self.file}:{self.line}: {what}"


@dataclass(frozen=True, slots=True)
class Source:
    """Policies that parse, validate and have distinct IDs."""

    schema: cedarpy.Schema
    policies: cedarpy.PolicySet
    ids: tuple[str, ...]


def shipped_folder() -> Path:
    """Where the policies lie that come with the gateway: beside the package in a checkout, inside it once installed.
    Raises PolicyError where neither is."""
    package = Path(__file__).parents[1]
    for folder in (package / "policies", package.parent / "policies"):
        if (folder / SCHEMA_FILE).is_file():
            return folder
    raise PolicyError(["policies/: the policies that come with the gateway are missing"])


def _unreadable(folder: Path, error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or folder}: cannot be read: {error.strerror}"
    return f"{folder}: cannot be read: {error}"


def read_folder(folder: Path, actions: Mapping[str, tuple[str, ...]]) -> Source:
    """`actions`: every action and the groups that it is in. Raises PolicyError with every mistake."""
    try:
        schema_text = (folder / SCHEMA_FILE).read_text("utf-8")
        files = {path.name: path.read_text("utf-8") for path in sorted(folder.glob(f"*{SUFFIX}"))}
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError([_unreadable(folder, error)]) from None
    schema = _schema(schema_text, actions)
    statements = [one for name, text in files.items() for one in split(name, text)]
    if not statements:
        raise PolicyError([f"{folder}: holds no policy"])
    mistakes: list[str] = []
    ids: dict[str, Statement] = {}
    for statement in statements:
        found = list(_mistakes(statement, schema))
        if not found:
            name = _id(statement)
            if name in ids:
                found = [f"the ID {name} is taken in {ids[name].file}:{ids[name].line}"]
            ids[name] = statement
        mistakes += map(statement.mistake, found)
    if mistakes:
        raise PolicyError(mistakes)
    return Source(schema, cedarpy.PolicySet.from_str("\n".join(one.text for one in statements)), tuple(ids))


def split(file: str, text: str) -> Iterator[Statement]:
    """The statements of `text`, each up to its `;`. What follows the last one is a statement too, unless it is blank."""
    line, start, parts = 1, 0, list[str]()
    for piece in _PIECE.findall(text):
        if not start and not piece.isspace() and not piece.startswith("//"):
            start = line
        if start:
            parts.append(piece)
        line += piece.count("\n")
        if piece == ";":
            yield Statement(file, start, "".join(parts))
            start, parts = 0, []
    if start:
        yield Statement(file, start, "".join(parts))


def _mistakes(statement: Statement, schema: cedarpy.Schema) -> Iterator[str]:
    try:
        parsed = cedarpy.PolicySet.from_str(statement.text)
    except ValueError as error:
        yield str(error)
        return
    if len(parsed) != 1 or parsed.templates():
        yield "must be one policy, without ?principal or ?resource"
        return
    if not _ID.fullmatch(_id(statement)) or len(_id(statement)) > _MAX_ID:
        yield 'needs an ID for the audit log, such as @id("models"): lower-case words joined by -'
    invalid = cedarpy.validate_policies(statement.text, schema).errors
    # One mistake is reported for each action that it touches.
    yield from dict.fromkeys(_WHERE.sub("", error.error) for error in invalid)


def _id(statement: Statement) -> str:
    policies = json.loads(cedarpy.policies_to_json_str(statement.text))["staticPolicies"]
    return str(next(iter(policies.values())).get("annotations", {}).get("id", ""))


def _schema(text: str, actions: Mapping[str, tuple[str, ...]]) -> cedarpy.Schema:
    """The file's declarations, and one action for each route: so no route can be without one."""
    declared = text + "\n" + "\n".join(declarations(actions))
    try:
        return cedarpy.Schema.from_str(declared)
    except ValueError as error:
        raise PolicyError([_schema_mistake(text, str(error))]) from None


def declarations(actions: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The schema's lines on actions. Every action takes every kind of object, or the tenant where it names none."""
    for group in sorted({group for groups in actions.values() for group in groups}):
        yield f"action {json.dumps(group)};"
    resources = ", ".join(("Tenant", *ENTITY_OF_KIND.values()))
    for name, groups in sorted(actions.items()):
        within = ", ".join(map(json.dumps, groups))
        yield f"action {json.dumps(name)} in [{within}] appliesTo"
        yield f"    {{ principal: [User, Service], resource: [{resources}], context: Request }};"


def _schema_mistake(text: str, whole: str) -> str:
    """The declaration that does not parse by itself; else the one that holds what the message quotes last."""
    statements = list(split(SCHEMA_FILE, text))
    for statement in statements:
        try:
            cedarpy.Schema.from_str(statement.text)
        except ValueError as error:
            if str(error).startswith("error parsing schema"):
                return statement.mistake(error)
    words = re.findall(r"\w+", whole)
    for word in reversed(words):
        for statement in statements:
            if len(word) > 2 and re.search(rf"\b{word}\b", statement.text):
                return statement.mistake(whole)
    return f"{SCHEMA_FILE}:1: {whole}"
