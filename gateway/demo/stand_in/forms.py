"""Forms as the real service reads them: by another parser than the gateway writes them with."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from multipart import MultipartError, MultipartParser, parse_options_header

from gateway.demo.stand_in.failures import Failure


@dataclass(slots=True)
class Upload:
    """A file of a form."""

    filename: str
    media_type: str
    data: bytes


@dataclass(slots=True)
class Form:
    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, list[Upload]] = field(default_factory=dict)
    """By name, without `[]`."""

    def value(self) -> dict[str, Any]:
        """The texts whose names are no paths."""
        return dict(self.texts)

    def file(self, name: str) -> Upload:
        """Raises `Failure` where there is none."""
        if name not in self.files:
            raise Failure(400, f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
        return self.files[name][0]


def read(content_type: str, body: bytes) -> Form:
    """Raises `Failure` for what is no form."""
    kind, options = parse_options_header(content_type)
    form = Form()
    try:
        if kind != "multipart/form-data":
            raise MultipartError
        for part in MultipartParser(
            BytesIO(body), options.get("boundary", ""), spool_limit=1 << 30, memory_limit=1 << 30
        ):
            if part.filename is None:
                form.texts[part.name] = part.value
            else:
                uploads = form.files.setdefault(part.name.removesuffix("[]"), [])
                uploads.append(Upload(part.filename, part.content_type or "", part.raw))
    except MultipartError:
        raise Failure(400, "Could not parse multipart form") from None
    return form
