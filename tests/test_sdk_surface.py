"""The table and its refusals against the installed `openai` package: a release that adds an operation, a type or an ID
field fails here, with its name, and nowhere else.

The package is read twice: its resource classes by their syntax, for what they send and expect, and the types so found
by their annotations, each beside the spec that the table has for the place.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import openai
import pydantic
import pytest
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from gateway.surfaces import audio, chat, fine_tuning, images, moderations
from gateway.surfaces.denied import reason_for
from gateway.surfaces.items import ANNOTATION, CONTENT, ITEM, TOOL
from gateway.surfaces.responses import EVENT
from gateway.surfaces.route import Route
from gateway.surfaces.spec import UNKNOWN, Blob, Each, Either, Hashed, Id, Obj, Plain, Secret, Spec, Typed
from gateway.surfaces.table import PREFIX, ROUTES

REQUEST_METHODS = {"_get", "_post", "_put", "_patch", "_delete", "_get_api_list"}

FEWEST_OPERATIONS = 350
"""Version 3.57 has 388. Far fewer would mean that the walk no longer understands the package."""

FEWEST_ID_FIELDS = 500
"""Version 3.57 has more than twice as many places under the served routes."""

ID_NAMES = frozenset(
    {
        "id", "after", "before", "container", "conversation", "created_by", "encrypted_content", "fine_tuned_model",
        "fine_tuned_model_checkpoint", "fingerprint", "owned_by", "prompt_cache_key", "result_files", "safety_identifier",
        "training_file", "user", "validation_file",
    }
)  # fmt: skip
"""Names of fields that hold IDs, tokens of one name space or replay blobs, beside `*_id` and `*_ids`."""

EXEMPT: Mapping[str, str] = {
    "LocalShellCallAction.user": "the user of the client's own machine as whom a command runs",
    "FileUpdateParams.vector_store_id": "it stands in the path",
    "FineTuningJob.organization_id": "the organization is the operator's, so it is made inert",
    "Completion.id": "it names nothing that can be asked for, so it is made inert like all that no table knows",
    "ModerationCreateResponse.id": "likewise",
    "*.created_by": "whoever it names is made inert, whatever it looks like: the key says an ID",
}
"""Type and field → why the table says nothing about it."""

TABLES: Mapping[str, Typed] = {
    "item": ITEM,
    "tool": TOOL,
    "annotation": ANNOTATION,
    "content": CONTENT,
    "event": EVENT,
    "part of a chat": chat.PART,
    "annotation of a chat": chat.ANNOTATION,
    "tool of a chat": chat.TOOL,
    "part to classify": moderations.PART,
    "event of an image": images.EVENT,
    "grader": fine_tuning.GRADER,
    "event of sound": audio.EVENT,
}

NOT_IN_THE_PACKAGE = frozenset(
    {
        "input_audio",
        "output_audio",
        "speech.audio.delta",
        "speech.audio.done",
        "response.cancelled",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
    }
)
"""Types that recorded traffic or the service's other surfaces have, and no type of the package under these routes."""


@dataclass(slots=True)
class Operation:
    """What the package sends to one method and path, and what it takes for the answer."""

    method: str
    path: str
    body: list[Any] = field(default_factory=list)
    query: list[Any] = field(default_factory=list)
    answer: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


def _template(path: str) -> str:
    """A path without its fixed query and without the names of its segments."""
    return re.sub(r"\{[^}]*\}", "{}", path.partition("?")[0])


def _named(node: ast.expr, module: types.ModuleType) -> Any:
    """What a dotted name, or a subscript of one, stands for in `module`."""
    match node:
        case ast.Name():
            return getattr(module, node.id, None) or getattr(builtins, node.id)
        case ast.Attribute():
            return getattr(_named(node.value, module), node.attr)
        case ast.Subscript():
            return _named(node.value, module)[_named(node.slice, module)]
    raise AssertionError(f"{module.__name__}:{node.lineno}: not a name: {ast.unparse(node)}")


def _path(node: ast.expr) -> str | None:
    """`"/models"` or `path_template("/models/{model}", model=model)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "path_template":
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _read_call(call: ast.Call, module: types.ModuleType) -> Operation:
    path = _path(call.args[0])
    assert path, f"{module.__name__}:{call.lineno}: a request whose path is not understood: {ast.unparse(call.args[0])}"
    assert isinstance(call.func, ast.Attribute)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    method = call.func.attr[1:].upper()
    if method == "GET_API_LIST":
        sent = keywords.get("method")
        method = str(sent.value).upper() if isinstance(sent, ast.Constant) else "GET"
    operation = Operation(method, path)
    for keyword, into in (("body", operation.body), ("options", operation.query)):
        for node in ast.walk(keywords.get(keyword, ast.Pass())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id.endswith("_params")
            ):
                into.append(_named(node, module))
    for keyword, into in (("cast_to", operation.answer), ("page", operation.answer), ("stream_cls", operation.events)):
        named = keywords.get(keyword)
        if isinstance(named, ast.Subscript) and keyword == "stream_cls":
            named = named.slice
        if isinstance(named, ast.Name | ast.Attribute | ast.Subscript):
            into.append(_named(named, module))
    return operation


@cache
def operations() -> tuple[Operation, ...]:
    """Every request that a resource class of the package makes, by the synchronous and the asynchronous one alike."""
    found = []
    root = Path(str(openai.__file__)).parent
    for file in sorted((root / "resources").rglob("*.py")):
        tree = ast.parse(file.read_text())
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REQUEST_METHODS
        ]
        if calls:
            dotted = ".".join(file.relative_to(root.parent).with_suffix("").parts)
            module = importlib.import_module(dotted)
            found += [_read_call(call, module) for call in calls]
    return tuple(found)


def test_the_walk_finds_the_operations_of_the_package() -> None:
    found = {(one.method, one.path) for one in operations()}
    assert len(found) >= FEWEST_OPERATIONS
    assert {
        ("POST", "/responses"),
        ("GET", "/conversations/{conversation_id}/items"),
        ("DELETE", "/files/{file_id}"),
    } <= found


def test_every_operation_of_the_package_is_served_or_refused_with_a_reason() -> None:
    served = {(route.method, _template(route.path)) for route in ROUTES}
    neither = sorted(
        {
            f"{one.method} {one.path}"
            for one in operations()
            if (one.method, _template(one.path)) not in served
            and not reason_for(one.method, PREFIX + one.path.partition("?")[0])
        }
    )
    assert not neither


def test_every_served_route_is_an_operation_of_the_package() -> None:
    known = {(one.method, _template(one.path)) for one in operations()}
    assert not [route.action for route in ROUTES if (route.method, _template(route.path)) not in known]


# --- the types ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """What a walk through types and specs side by side has found."""

    gaps: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    """Exemptions that were needed."""
    places: set[str] = field(default_factory=set)
    """ID-bearing fields that were looked at."""
    tags: set[str] = field(default_factory=set)
    """The values of `type` that the package knows."""
    _walked: set[tuple[Any, int]] = field(default_factory=set)

    def compare(self, hint: Any, spec: Spec, place: str) -> None:
        """Every ID-bearing field below `hint` against `spec`, which describes the same value."""
        for one in _alternatives(hint):
            if (element := _element(one)) is not None:
                self.compare(element, _element_spec(spec), f"{place}[]")
            elif get_origin(one) in (dict, Mapping):
                inner = _structure(spec)
                self.compare(get_args(one)[1], inner.rest if isinstance(inner, Obj) else _below(inner), f"{place}.*")
            elif _is_object(one):
                self._object(one, _structure(spec), place)

    def _object(self, model: Any, spec: Spec, place: str) -> None:
        if (model, id(spec)) in self._walked:
            return
        self._walked.add((model, id(spec)))
        hints = _fields(model)
        for tag, of in self._rows(model, hints, spec, place):
            where = f"{place}<{tag}>" if tag else place
            for name, hint in hints.items():
                inner = of.fields.get(name, of.rest) if isinstance(of, Obj) else _below(of)
                self._field(model, name, hint, inner, f"{where}.{name}")

    def _rows(self, model: Any, hints: Mapping[str, Any], spec: Spec, place: str) -> Iterator[tuple[str, Spec]]:
        """The spec of an object, for each tag that it may bear."""
        if not isinstance(spec, Typed):
            yield "", spec
            return
        tags = [
            tag for one in _alternatives(hints.get(spec.key)) if get_origin(one) is Literal for tag in get_args(one)
        ]
        self.tags.update(tags)
        for tag in tags:
            if tag not in spec.table:
                self.gaps.add(f"{place}: type {tag!r} ({model.__name__}) has no row")
            yield tag, spec.table.get(tag, spec.other)
        if not tags or not _is_required(model, spec.key):
            yield "", spec.absent or spec.other

    def _field(self, model: Any, name: str, hint: Any, spec: Spec, place: str) -> None:
        if name in ID_NAMES or name.endswith(("_id", "_ids")):
            for one in _alternatives(hint):
                element = _element(one)
                texts = one is str or (element is not None and str in _alternatives(element))
                if not texts:
                    continue
                self.places.add(place)
                said = _text(_element_spec(spec) if element is not None else spec)
                if not isinstance(said, Id | Hashed | Blob | Plain | Secret):
                    key = f"*.{name}" if f"*.{name}" in EXEMPT else f"{model.__name__}.{name}"
                    self.used.add(key)
                    if key not in EXEMPT:
                        self.gaps.add(f"{place} ({key}) is not described, but {type(said).__name__}")
        self.compare(hint, spec, place)


def _alternatives(hint: Any) -> list[Any]:
    """The members of a union, without the wrappers that say how a value is sent."""
    origin = get_origin(hint)
    if origin in (Annotated, Required, NotRequired):
        return _alternatives(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return [one for member in get_args(hint) for one in _alternatives(member)]
    if isinstance(hint, typing.TypeVar):
        return []
    return [hint]


def _element(hint: Any) -> Any:
    """What an array holds; None for what is none."""
    origin = get_origin(hint)
    if isinstance(origin, type) and not issubclass(origin, Mapping) and _is_array(origin):
        return get_args(hint)[0]
    return None


def _is_array(origin: type) -> bool:
    return issubclass(origin, list | tuple) or origin in (Iterable, Sequence) or origin.__name__ == "SequenceNotStr"


def _is_object(hint: Any) -> bool:
    return is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, pydantic.BaseModel))


@cache
def _fields(model: Any) -> Mapping[str, Any]:
    """The fields by their names on the wire."""
    if is_typeddict(model):
        named: dict[str, Any] = {}
        for name, hint in get_type_hints(model, include_extras=True).items():
            infos = [getattr(extra, "alias", None) for extra in getattr(_unwrapped(hint), "__metadata__", ())]
            named[next((alias for alias in infos if alias), name)] = hint
        return named
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _unwrapped(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _is_required(model: Any, name: str) -> bool:
    if is_typeddict(model):
        hint = get_type_hints(model, include_extras=True).get(
            name
        )  # `__required_keys__` fails on postponed annotations
        return get_origin(hint) is Required or (model.__total__ and get_origin(hint) is not NotRequired)
    return name in model.model_fields and bool(model.model_fields[name].is_required())


def _text(spec: Spec) -> Spec:
    return _text(spec.text) if isinstance(spec, Either) else spec


def _structure(spec: Spec) -> Spec:
    return _structure(spec.structure) if isinstance(spec, Either) else spec


def _element_spec(spec: Spec) -> Spec:
    inner = _structure(spec)
    return inner.of if isinstance(inner, Each) else _below(inner)


def _below(spec: Spec) -> Spec:
    """What is said about a member of a value that a spec without structure describes: the whole subtree is alike."""
    return UNKNOWN if isinstance(spec, Id | Hashed | Blob | Plain | Obj | Typed | Each) else spec


@cache
def _compared() -> Comparison:
    found = Comparison()
    for operation, route in _served():
        for hint in operation.body:
            found.compare(hint, route.request or UNKNOWN, f"{route.action} takes ")
        for hint in operation.answer:
            found.compare(hint, route.answer, f"{route.action} answers ")
        for hint in operation.events:
            found.compare(hint, route.events or UNKNOWN, f"{route.action} streams ")
    return found


def _served() -> Iterator[tuple[Operation, Route]]:
    routes = {(route.method, _template(route.path)): route for route in ROUTES}
    for operation in operations():
        route = routes.get((operation.method, _template(operation.path)))
        if route is not None:
            yield operation, route


def test_every_type_and_every_id_of_the_served_routes_is_described() -> None:
    found = _compared()
    assert len(found.places) >= FEWEST_ID_FIELDS
    assert not sorted(found.gaps)
    assert not EXEMPT.keys() - found.used, "exemptions that nothing needs"


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in TABLES.items()])
def test_every_row_of_the_table_is_a_type_that_the_service_writes(spec: Typed) -> None:
    unknown = spec.table.keys() - _compared().tags - NOT_IN_THE_PACKAGE
    assert not unknown


def test_every_query_parameter_of_the_package_may_be_sent() -> None:
    """The package's types of parameters also name what goes into the path, the body and a header."""
    elsewhere = {"openai-beta"}
    refused = {
        f"{route.action}: {name}"
        for operation, route in _served()
        for hint in operation.query
        for one in _alternatives(hint)
        for name in _fields(one)
        if name not in {*route.query, *route.path_ids, *_body_fields(route), *elsewhere}
    }
    assert not refused


def _body_fields(route: Route) -> Iterable[str]:
    return route.request.fields if isinstance(route.request, Obj) else ()


class Citation(pydantic.BaseModel):
    type: Literal["hologram_citation"]
    hologram_id: str


class Part(TypedDict, total=False):
    type: Required[Literal["output_text"]]
    annotations: Iterable[Citation]
    sketch_ids: list[str]


def test_an_undescribed_type_and_an_undescribed_id_are_named() -> None:
    found = Comparison()
    found.compare(list[Part], Each(CONTENT), "here")
    assert found.gaps == {
        "here[]<output_text>.annotations[]: type 'hologram_citation' (Citation) has no row",
        "here[]<output_text>.annotations[]<hologram_citation>.hologram_id (Citation.hologram_id) is not described, "
        "but Unknown",
        "here[]<output_text>.sketch_ids (Part.sketch_ids) is not described, but Unknown",
    }
