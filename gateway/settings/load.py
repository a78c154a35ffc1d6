"""From arguments, environment and file to `Settings`, or to the list of everything that is wrong with them."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from gateway.authn.issuer import IssuerSettings
from gateway.authn.relying_party import RelyingParty
from gateway.settings.checks import contradictions
from gateway.settings.console_issuers import read_console_issuer
from gateway.settings.issuers import read_issuer
from gateway.settings.keys import KEYS, SECTIONS, Key
from gateway.settings.readers import read_path, read_secret_file
from gateway.settings.sections import Console, OpenAI, Redis, Settings
from gateway.settings.upstreams import read_upstream
from gateway.stores.address import parse_target
from gateway.upstreams.fleet import FIRST, UpstreamSettings

CONFIG_VARIABLE: Final = "COATCHECK_CONFIG"
DEFAULT_FILE: Final = Path("coatcheck.toml")
_ELSEWHERE: Final = frozenset({CONFIG_VARIABLE, "COATCHECK_PYTHON"})
"""Variables of this prefix that are no settings: the file's place, and the Python of `make test-clients`."""
_SERVICE_LINK: Final = re.compile(r"COATCHECK(_[A-Z0-9]+)*_(SERVICE_(HOST|PORT)|PORT_[0-9]+_)\w*")
"""What Kubernetes sets for a service of our name (https://kubernetes.io/docs/concepts/services-networking/service/)."""

_TABLES: Final[dict[type, frozenset[str]]] = {
    Settings: frozenset({"issuer"}),
    Console: frozenset({"issuer"}),
    OpenAI: frozenset({"upstream"}),
}
"""What else a section may hold: tables of which there may be several."""


@dataclass(frozen=True, slots=True)
class Mistake:
    place: str
    """The environment variable, the flag, or the file with its key."""
    mend: str

    def __str__(self) -> str:
        return f"{self.place}: {self.mend}"


class SettingsError(Exception):
    """All that is wrong, one line each. No line holds a value that was given."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


def load(
    overrides: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
    *,
    serves: bool = True,
    reviews: bool = False,
    defaults: Mapping[str, object] | None = None,
) -> Settings:
    """The settings. `overrides` (by `section.name`, from the command line) win over `env` (None: the process's own), which
    wins over the file, which wins over `defaults` (by `section.name`) where those are to be others than the settings' own.
    `serves`: whether an upstream key is needed. `reviews`: for the console alone, which needs no root key where it has the
    audit root key. Raises SettingsError with every mistake."""
    reading = _Reading(overrides or {}, os.environ if env is None else env, file, defaults or {})
    return reading.settings(serves=serves and not reviews, reviews=reviews)


def wants_colours(env: Mapping[str, str] | None = None) -> bool:
    """Whether the terminal's user takes coloured text (https://no-color.org). No setting of ours, but read where they are."""
    given = os.environ if env is None else env
    return not given.get("NO_COLOR") and given.get("TERM") != "dumb"


class _Reading:
    """One run of `load`: collects mistakes instead of stopping at the first."""

    def __init__(
        self,
        overrides: Mapping[str, object],
        env: Mapping[str, str],
        file: Path | None,
        defaults: Mapping[str, object],
    ) -> None:
        self._overrides = overrides
        self._defaults = defaults
        # A variable that is set to nothing counts as not set: that is how compose files pass on what may be missing.
        self._env = {name: value for name, value in env.items() if value}
        self._mistakes: list[Mistake] = []
        self._places: dict[str, str] = {}
        if file is None and CONFIG_VARIABLE in self._env:
            file = Path(self._env[CONFIG_VARIABLE])
        self._file = file or DEFAULT_FILE
        self._document = self._parse(required=file is not None)

    def settings(self, *, serves: bool, reviews: bool) -> Settings:
        self._refuse_unknown()
        values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        for row in KEYS:
            found = self._value(row)
            if found is not None:
                values[row.section][row.name] = found
        top = values.pop("")
        made = Settings(**top, **{section: SECTIONS[section](**given) for section, given in values.items()})
        made = replace(
            made,
            redis=self._redis(made.redis),
            **self._issuers(),
            **self._console_issuers(),
            upstreams=self._upstreams(),
        )
        for name, mend in contradictions(made, serves=serves, reviews=reviews):
            if name not in self._places or not self._is_wrong(self._places[name]):
                self._mistake(self._places.get(name) or _where_to_set(name), mend)
        if self._mistakes:
            raise SettingsError(tuple(self._mistakes))
        return made

    def _mistake(self, place: str, mend: str) -> None:
        self._mistakes.append(Mistake(place, mend))

    def _is_wrong(self, place: str) -> bool:
        return any(mistake.place == place for mistake in self._mistakes)

    def _parse(self, required: bool) -> dict[str, Any]:
        try:
            return tomllib.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            if required:
                self._mistake(str(self._file), "there is no such file")
        except OSError as error:
            self._mistake(str(self._file), f"cannot be read: {error.strerror}")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self._mistake(
                str(self._file),
                f"is not TOML: {error}" if isinstance(error, tomllib.TOMLDecodeError) else "is not UTF-8",
            )
        return {}

    def _in_file(self, row: Key) -> object | None:
        table = self._document.get(row.section, {}) if row.section else self._document
        found: object | None = table.get(row.in_file) if isinstance(table, dict) else None
        return found

    def _value(self, row: Key) -> Any:
        """What is set, read and within bounds; None where nothing is, or where it is wrong."""
        for place, value in self._sources(row):
            self._places[row.dotted] = place
            try:
                if not row.secret:
                    return _within(row, row.read(value))
                return row.read(value.strip() if isinstance(value, str) else read_secret_file(read_path(value)))
            except ValueError as error:
                self._mistake(place, str(error))
                return None
        return None

    def _sources(self, row: Key) -> Iterator[tuple[str, object]]:
        """Where the setting is given, the strongest first. A secret is text, the file that holds it a `Path`."""
        if self._overrides.get(row.dotted) is not None:
            yield row.dotted, self._overrides[row.dotted]
        by_file = f"{row.env}_FILE" if row.secret else ""
        if row.env in self._env and by_file in self._env:
            self._mistake(by_file, f"is set beside {row.env}; set one of them")
        if row.env in self._env:
            yield row.env, self._env[row.env]
        if by_file in self._env:
            yield by_file, Path(self._env[by_file])
        found = self._in_file(row)
        if found is not None and found != "":
            place = f"{self._file}, {row.place}"
            if row.secret and not isinstance(found, str):
                self._mistake(place, "must be a path")
            else:
                yield place, Path(str(found)) if row.secret else found
        if row.dotted in self._defaults:
            yield row.dotted, self._defaults[row.dotted]

    def _refuse_unknown(self) -> None:
        """A misspelt setting is a mistake, never a default."""
        variables = {row.env for row in KEYS} | {f"{row.env}_FILE" for row in KEYS if row.secret} | _ELSEWHERE
        for name in sorted(self._env.keys() - variables):
            if name.startswith("COATCHECK_") and not _SERVICE_LINK.fullmatch(name):
                self._mistake(name, "is no setting" + _perhaps(name, variables))
        for name in sorted(self._overrides.keys() - {row.dotted for row in KEYS}):
            self._mistake(name, "is no setting")
        for section, cls in SECTIONS.items():
            table = self._document.get(section, {}) if section else self._document
            if not isinstance(table, dict):
                self._mistake(f"{self._file}, {section}", f"must be a table: [{section}]")
                continue
            known = {row.in_file for row in KEYS if row.section == section}
            if cls is Settings:
                known |= SECTIONS.keys()
            known |= _TABLES.get(cls, frozenset())
            secrets = {row.name: row for row in KEYS if row.section == section and row.secret}
            for name in table.keys() - known:
                place = f"{self._file}, [{section}] {name}" if section else f"{self._file}, {name}"
                if name in secrets:
                    row = secrets[name]
                    self._mistake(place, f"a secret does not belong here: set {row.env}, or {row.in_file}")
                else:
                    self._mistake(place, "is no setting" + _perhaps(name, known))

    def _redis(self, redis: Redis) -> Redis:
        """With its target, read from the URL and from what stands beside it."""
        place = self._places.get("redis.url", "")
        beside = {
            "ca": redis.tls_ca_file, "cert": redis.tls_certificate_file, "key": redis.tls_key_file,
        }  # fmt: skip
        options = {name: str(path) for name, path in beside.items() if path}
        if not redis.url:
            if options or redis.username or redis.password or redis.durability.startswith("wait:"):
                self._mistake(_where_to_set("redis.url"), "is missing, and other settings of [redis] need it")
            return redis
        if place.startswith(f"{self._file}, ") and re.search(r":[^@/]*@", redis.url.partition("://")[2]):
            self._mistake(place, "a password does not belong here: set REDIS_URL, or password_file")
        if options and not redis.url.startswith("rediss"):
            self._mistake(place, "must start with rediss, as TLS files are set")
            return redis
        url = redis.url + (("&" if "?" in redis.url else "?") + urlencode(options) if options else "")
        try:
            target = parse_target(url)
        except ValueError as error:
            self._mistake(place, str(error))
            return redis
        except OSError as error:
            self._mistake(place, f"its TLS files cannot be used: {error.strerror or type(error).__name__}")
            return redis
        if (redis.username and target.username) or (redis.password and target.password):
            self._mistake(place, "names a user or password that is set beside it too; leave one out")
        target = replace(
            target, username=target.username or redis.username or None, password=target.password or redis.password
        )
        return replace(redis, target=target)

    def _section(self, name: str) -> dict[str, Any]:
        section = self._document.get(name)
        return section if isinstance(section, dict) else {}

    def _tables(self, where: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, object]]]:
        """The tables of that name in `where`, each with its place."""
        tables = where.get(name.rpartition(".")[2], [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._mistake(f"{self._file}, {name}", f"must be tables: [[{name}]]")
            return
        for number, table in enumerate(tables, start=1):
            yield f"{self._file}, [[{name}]] number {number}", table

    def _console_issuers(self) -> dict[str, Any]:
        parties: list[RelyingParty] = []
        for place, table in self._tables(self._section("console"), "console.issuer"):
            read = read_console_issuer(table)
            if not isinstance(read, RelyingParty):
                for name, mend in read.items():
                    self._mistake(f"{place}, {name}", mend)
            elif any(other.provider.issuer == read.provider.issuer for other in parties):
                self._mistake(f"{place}, issuer", "is set twice")
            else:
                parties.append(read)
        return {"console_issuers": tuple(parties)}

    def _upstreams(self) -> tuple[UpstreamSettings, ...]:
        upstreams: list[UpstreamSettings] = []
        for place, table in self._tables(self._section("openai"), "openai.upstream"):
            read = read_upstream(table)
            if not isinstance(read, UpstreamSettings):
                for name, mend in read.items():
                    self._mistake(f"{place}, {name}", mend)
            elif read.name == FIRST or any(other.name == read.name for other in upstreams):
                self._mistake(f"{place}, name", f"is taken; {FIRST} is what [openai] is called")
            else:
                upstreams.append(read)
        return tuple(upstreams)

    def _issuers(self) -> dict[str, Any]:
        issuers: list[IssuerSettings] = []
        origins: dict[str, tuple[str, ...]] = {}
        for place, table in self._tables(self._document, "issuer"):
            read = read_issuer(table)
            if isinstance(read, tuple):
                settings, allowed = read
            else:
                for name, mend in read.items():
                    self._mistake(f"{place}, {name}", mend)
                continue
            if any(other.issuer == settings.issuer for other in issuers):
                self._mistake(f"{place}, issuer", "is set twice")
            issuers.append(settings)
            if allowed:
                origins[settings.issuer] = allowed
        return {"issuers": tuple(issuers), "origins": origins}


def _within(row: Key, value: Any) -> Any:
    """`value` if within the bounds of `row`. ValueError tells them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    unit = f" {row.unit}" if row.unit else ""
    if not math.isfinite(value) or (value <= 0 if row.low is None else value < row.low):
        raise ValueError("must be above 0" if row.low is None else f"must be at least {row.low:g}{unit}")
    if row.high is not None and value > row.high:
        raise ValueError(f"must be at most {row.high:g}{unit}")
    return value


def _where_to_set(name: str) -> str:
    """The place to name for a setting that is nowhere: its variable, and its key in the file."""
    return next((f"{row.env} or {row.place}" for row in KEYS if row.dotted == name), name)


def _perhaps(name: str, known: set[str] | frozenset[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; perhaps {near[0]}?" if near else ""
