"""The table as an OpenAPI document (https://spec.openapis.org/oas/v3.1.1): what may be sent where, and what comes back.

It says what the gateway knows of an operation: its IDs, each with its kind and form, and the objects in which they stand.
What passes untouched is any value. Nothing in it depends on who asks or how the gateway is set up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.ids.form import TAIL_CHARS
from gateway.ids.kinds import KINDS
from gateway.names import Kind
from gateway.surfaces import chat, files, images, items, moderations, responses
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import Blob, Each, Either, File, Hashed, Id, Media, Obj, Role, Spec, Typed
from gateway.surfaces.table import PREFIX, ROUTES

Schema = dict[str, Any]

_BODIES: Final = {
    Body.JSON: ("application/json",),
    Body.OPTIONAL_JSON: ("application/json",),
    Body.FORM: ("multipart/form-data",),
    Body.FORM_OR_JSON: ("multipart/form-data", "application/json"),
}

_PARAMETERS: Final[Mapping[str, Schema]] = {
    "limit": {"type": "integer", "minimum": 1},
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "starting_after": {"type": "integer", "minimum": 0},
    "stream": {"type": "boolean"},
}
"""Query parameters that are no text."""

_ERROR: Final[Schema] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


_NAMED: Final = {
    "": items,
    "Response": responses,
    "Chat": chat,
    "File": files,
    "Image": images,
    "Moderation": moderations,
}
"""The modules whose public constants name schemas, and what those names begin with."""


def document(version: str) -> Schema:
    """The document, as a value of JSON; `version`: the gateway's."""
    names: dict[int, str] = {}
    for spec, name in _names():
        names.setdefault(id(spec), name)
    sent, shown = _Schemas(names, "Sent"), _Schemas(names)
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, sent, shown)
    schemas = {**shown.components, **sent.components, "Error": _ERROR}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Coatcheck",
            "version": version,
            "description": "The OpenAI API as this gateway serves it. IDs are opaque: the service's own never appear, and "
            "what is not the caller's own reads as missing. Operations that are not listed are answered 404.",
        },
        "servers": [{"url": PREFIX}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {"Error": {"description": "Refused or failed", "content": _json(_ref("Error"))}},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key of the gateway, or a user's JWT"}
            },
        },
    }


def _operation(route: Route, sent: _Schemas, shown: _Schemas) -> Schema:
    operation: Schema = {
        "operationId": route.action,
        "summary": f"{route.does[0].upper()}{route.does[1:]}",
        "tags": [route.action.partition(".")[0]],
        "responses": {"200": _answer(route, shown), "default": {"$ref": "#/components/responses/Error"}},
    }
    if parameters := [*_path(route, sent), *_query(route, sent)]:
        operation["parameters"] = parameters
    if route.body is not Body.NONE:
        schema = sent.of(route.request) if route.request else {}
        operation["requestBody"] = {
            "required": route.body is not Body.OPTIONAL_JSON,
            "content": {media: {"schema": schema} for media in _BODIES[route.body]},
        }
    return operation


def _path(route: Route, sent: _Schemas) -> Iterator[Schema]:
    for name in re.findall(r"\{(\w+)\}", route.path):
        spec = route.path_ids.get(name)
        schema = sent.of(spec) if spec else {"type": "string"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query(route: Route, sent: _Schemas) -> Iterator[Schema]:
    for name, spec in route.query.items():
        parameter: Schema = {"name": name, "in": "query", "schema": {**_PARAMETERS.get(name, {"type": "string"})}}
        if isinstance(spec, Id):
            parameter["schema"] = sent.of(spec)
        elif route.lists and name == "limit":
            parameter["schema"] |= {"maximum": route.lists.most, "default": route.lists.limit}
        elif route.lists and name == "order":
            parameter["schema"]["default"] = route.lists.order
        elif route.lists and name == "metadata":
            texts = {"type": "object", "additionalProperties": {"type": "string"}}
            parameter |= {"style": "deepObject", "explode": True, "schema": texts}
        yield parameter


def _answer(route: Route, shown: _Schemas) -> Schema:
    content: Schema = {}
    if not route.media or route.answer != Obj({}):
        content = _json(shown.of(route.answer))
    if route.events is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    for begins in route.media:
        content[f"{begins.decode() or '*/'}*"] = {}
    answer: Schema = {"description": "Done", "content": content}
    if links := dict(_links(route)):
        answer["links"] = links
    return answer


def _links(route: Route) -> Iterator[tuple[str, Schema]]:
    """What takes the object that the route makes."""
    own = route.answer.fields.get("id") if isinstance(route.answer, Obj) else None
    if route.creates is None or not isinstance(own, Id) or own.kind is not route.creates:
        return
    for other in ROUTES:
        match list(other.path_ids.items()):
            case [(name, Id(kind=route.creates))]:
                taken = {f"path.{name}": "$response.body#/id"}
                yield other.action, {"operationId": other.action, "parameters": taken}


class _Schemas:
    """Specs as JSON Schema. What has a name, and each kind of ID, stands once, under `components`."""

    def __init__(self, names: Mapping[int, str], suffix: str = "") -> None:
        self.components: dict[str, Schema] = {}
        self._names = names
        self._suffix = suffix
        """`Sent` of what is sent, which has no null and no type that the table does not know; empty of what is shown."""

    def of(self, spec: Spec | None) -> Schema:
        name = self._names.get(id(spec))
        if name is None:
            return self._of(spec)
        name += self._suffix
        if name not in self.components:
            self.components[name] = {}
            self.components[name] = self._of(spec)
        return _ref(name)

    def _of(self, spec: Spec | None) -> Schema:
        match spec:
            case Id():
                return self._id(spec)
            case Hashed() | Blob() | Media():
                return {"type": "string"}
            case File():
                return {"type": "string", "contentMediaType": "application/octet-stream"}
            case Each():
                return {"type": "array", "items": self.of(spec.of)}
            case Either():
                texts = self.of(spec.text) or {"type": "string"}
                return {"anyOf": [texts, self.of(spec.structure)]}
            case Obj():
                return self._object(spec)
            case Typed():
                return self._typed(spec)
            case _:
                return {}

    def _id(self, spec: Id) -> Schema:
        if spec.only or spec.passes or (spec.role is Role.OWN and self._suffix):
            # Names of models, tokens, and the IDs that clients invent for what they send whole.
            return {"type": "string"}
        name = f"{_camel(spec.kind.value)}Id"
        self.components[name] = _form(spec.kind)
        return _ref(name)

    def _object(self, spec: Obj) -> Schema:
        schema: Schema = {"type": "object"}
        if spec.fields:
            members = {name: self.of(of) for name, of in spec.fields.items()}
            # The service writes null for what there is not.
            schema["properties"] = members if self._suffix else {name: _or_null(of) for name, of in members.items()}
        if rest := self.of(spec.rest):
            schema["additionalProperties"] = rest
        return schema

    def _typed(self, spec: Typed) -> Schema:
        variants = [self._variant(spec.key, of, {"const": tag}) for tag, of in spec.table.items()]
        if not self._suffix:
            variants.append(self._variant(spec.key, spec.other, {"type": "string", "not": {"enum": list(spec.table)}}))
        if spec.absent is not None:
            variants.append({**self._object(spec.absent), "not": {"required": [spec.key]}})
        return {"anyOf": variants}

    def _variant(self, key: str, spec: Obj, tag: Schema) -> Schema:
        schema = self._object(spec)
        return {**schema, "required": [key], "properties": {**schema.get("properties", {}), key: tag}}


def _or_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _form(kind: Kind) -> Schema:
    prefixes = [re.escape(prefix) for prefix in KINDS[kind].prefixes]
    begins = prefixes[0] if len(prefixes) == 1 else f"(?:{'|'.join(prefixes)})"
    return {"type": "string", "pattern": f"^{begins}[0-9A-Za-z]{{{TAIL_CHARS}}}$"}


def _names() -> Iterator[tuple[Spec, str]]:
    for begins, module in _NAMED.items():
        for name, value in vars(module).items():
            if name.isupper() and not name.startswith("_") and isinstance(value, Obj | Typed):
                yield value, begins if begins == _camel(name) else begins + _camel(name)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}
