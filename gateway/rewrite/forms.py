"""Forms (RFC 7578): the value that the names of a form's parts spell, and parts as they leave.

A form is taken apart and put together again like JSON: what goes upstream is made from names and texts that were checked, in
headers that are written here, so no second reading of the client's own bytes can find another part in them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.errors import Problem, Reason
from gateway.surfaces.spec import Each, Either, File, Obj, Spec

_INSIDE: Final = r'[^\[\]"\\\x00-\x1f\x7f]'
_NAME: Final = re.compile(rf"(?! )({_INSIDE}+)(?<! )((?:\[{_INSIDE}*\])*)")
_STEP: Final = re.compile(r"\[([^\[\]]*)\]")
_DEEPEST: Final = 8

_CHARSET: Final = "_charset_"
"""The part that says how the others' texts are to be read (RFC 7578 section 4.6): they are UTF-8."""

_DISPOSITION: Final = re.compile(r"form-data[ \t]*(?=;)", re.I)
# A backslash escapes to some readers and stands for itself to others, so in what is taken both find the same end.
_PARAMETER: Final = re.compile(
    r';[ \t]*([a-z]+\*?)="((?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*)"[ \t]*'
    r'|;[ \t]*([a-z]+\*?)=([^\s";\\\x00-\x1f\x7f]+)[ \t]*',
    re.I,
)
_ESCAPE: Final = re.compile(r"\\(.)")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_UNNAMED: Final = "blob"
"""As browsers name a file without a name: some readers (Go's) take what has an empty one for a text."""
_WORDS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class TextPart:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class FilePart:
    """`filename` as it stood between its quotes, but for a quote in it, which is `%22` there as browsers write it."""

    name: str
    filename: str
    media_type: str
    """Empty where the client gave none that can be read."""
    content: AsyncIterator[bytes]
    """To be read before the next part is asked for."""


class Fields:
    """What a form's parts say so far: `value` is the object that the texts' names spell, as a JSON body would be.

    `true` and `false` are booleans, as the service reads them; numbers stay texts. A name that is given twice is refused, as
    is one that contradicts another (`a` and `a[b]`): which of them counts would be the next reader's to choose.
    """

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self._files: dict[str, bool] = {}
        """Names of files, each with whether several may bear it."""

    def __contains__(self, name: str) -> bool:
        return name in self.value

    def add(self, name: str, text: str) -> None:
        """Takes a text. Raises Problem(BAD_PARAMETER)."""
        first, *rest = steps(name)
        if first in self._files:
            raise _twice(name)
        said: bool | str = _WORDS.get(text, text)
        holder: Any = self.value
        at: str = first
        for step in rest:
            if step:
                holder = _inner(holder, at, dict, name)
                at = step
            else:
                _inner(holder, at, list, name).append(said)
                return
        if at in holder:
            raise _twice(name)
        holder[at] = said

    def add_file(self, name: str) -> None:
        """Takes note of a file. A name ends in `[]` where several may bear it. Raises Problem(BAD_PARAMETER)."""
        first, *_ = steps(name)
        several = name.endswith("[]")
        if first in self.value or (first in self._files and not (several and self._files[first])):
            raise _twice(name)
        self._files[first] = several


def _inner(holder: Any, at: str, kind: type, name: str) -> Any:
    inner = holder.setdefault(at, kind())
    if type(inner) is not kind:
        raise _twice(name)
    return inner


def steps(name: str) -> list[str]:
    """`a[b][]` as `["a", "b", ""]`. Only the last may be empty. Raises Problem(BAD_PARAMETER) for what is no such name."""
    found = _NAME.fullmatch(name)
    if found is None or found[1] == _CHARSET:
        raise Problem(Reason.BAD_PARAMETER, "a part of the form has a name that is not acceptable")
    spelt = [found[1], *_STEP.findall(found[2])]
    if len(spelt) > _DEEPEST or "" in spelt[:-1]:
        raise Problem(Reason.BAD_PARAMETER, "a part of the form has a name that is not acceptable")
    return spelt


def file_at(request: Spec, name: str) -> File:
    """What the table says of a file of this name. Raises Problem where it knows none."""
    spec: Spec = request
    for step in steps(name):
        match spec:
            case Either(_, structure):
                spec = structure
        match spec:
            case Obj():
                spec = spec.fields.get(step, spec.rest)
            case Each() if not step:
                spec = spec.of
            case _:
                break
    else:
        if isinstance(spec, Either):
            spec = spec.text
        if isinstance(spec, File):
            return spec
    raise Problem(Reason.BAD_PARAMETER, "this part of the form may not be a file", param=name)


def is_file_place(request: Spec, name: str) -> bool:
    """Whether the table has a file there: what comes without a file name might be read as one all the same."""
    try:
        file_at(request, name)
    except Problem:
        return False
    return True


def texts(value: Mapping[str, Any]) -> Iterator[TextPart]:
    """The parts that spell `value`, as `Fields` reads them."""
    for name, member in value.items():
        yield from _texts(name, member)


def _texts(name: str, value: Any) -> Iterator[TextPart]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _texts(f"{name}[{key}]", member)
        case list():
            for element in value:
                yield from _texts(f"{name}[]", element)
        case bool():
            yield TextPart(name, "true" if value else "false")
        case _:
            yield TextPart(name, value)


# --- the wire


def read_disposition(value: str) -> tuple[str, str | None]:
    """Name and file name (None: no file) of a part's Content-Disposition (RFC 7578 section 4.2), without their quotes.

    Raises Problem(BAD_PARAMETER) for whatever two readers could take apart differently.
    """
    found = _DISPOSITION.match(value)
    parameters: dict[str, str] = {}
    at = found.end() if found else len(value) + 1
    while at < len(value):
        one = _PARAMETER.match(value, at)
        if one is None or (key := (one[1] or one[3]).lower()) in parameters:
            raise _unreadable()
        parameters[key] = one[2] if one[1] else one[4]
        at = one.end()
    name = parameters.pop("name", "")
    filename = parameters.pop("filename", None)
    # `filename*` has no place in a form, and says the same again where a client sends it (RFC 7578 section 4.2).
    parameters.pop("filename*", None)
    if not name or parameters:
        raise _unreadable()
    return name, None if filename is None else _ESCAPE.sub(_unescaped, filename)


def _unescaped(found: re.Match[str]) -> str:
    return "%22" if found[1] == '"' else found[0]


def media_type(value: str) -> str:
    """A part's Content-Type without parameters; empty for what is none."""
    essence = value.partition(";")[0].strip().lower()
    return essence if _MEDIA_TYPE.fullmatch(essence) else ""


def head(boundary: str, name: str, filename: str | None = None, content_type: str = "") -> bytes:
    """A part up to its first byte. The texts come from `read_disposition`, `media_type` and `Fields`."""
    lines = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
    if filename is not None:
        lines += f'; filename="{filename or _UNNAMED}"'
    if content_type:
        lines += f"\r\nContent-Type: {content_type}"
    return f"{lines}\r\n\r\n".encode()


def end(boundary: str) -> bytes:
    """What ends a form."""
    return f"--{boundary}--\r\n".encode()


def _unreadable() -> Problem:
    return Problem(Reason.BAD_PARAMETER, "a part of the form has a Content-Disposition that is not acceptable")


def _twice(name: str) -> Problem:
    return Problem(Reason.BAD_PARAMETER, "a part of the form is given twice", param=name)
