"""Error messages of the upstream, said again in our own words.

An upstream's text quotes raw IDs, the organization, the project, and how busy both are, so it is never relayed. A closed
list of shapes (https://platform.openai.com/docs/guides/error-codes, and texts seen in traffic) is recognized; each is
answered by a template that quotes only what the client itself sent. Everything else becomes a neutral sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.ids.shape import find_raw


@dataclass(frozen=True, slots=True)
class Rebuilt:
    message: str
    type: str
    code: str | None
    param: str | None


@dataclass(frozen=True, slots=True)
class _Shape:
    """`said` is looked for in the upstream's message. Its groups fill `template`, if every one of them is the client's
    own (or a number, or one of our words); else `anonymous` is the answer."""

    said: re.Pattern[str]
    template: str
    anonymous: str


_QUOTE: Final = r"[`'\"‘’“”]?"
_ID: Final = _QUOTE + r"(?P<id{n}>[^\s`'\"‘’“”]{{1,256}}?)" + _QUOTE
_NOUNS: Final = (
    "Chat completion|Response|Conversation|Prompt|Item|File batch|File|Vector store|Container file|Container|Batch|Message"
    "|Skill"
)
_ITEM_TYPE: Final = _QUOTE + r"(?P<word>[a-z_]{1,40})" + _QUOTE


def _shape(said: str, template: str, anonymous: str) -> _Shape:
    for n in "12":
        said = said.replace(f"<ID{n}>", _ID.format(n=n))
    said = said.replace("<TYPE>", _ITEM_TYPE)
    return _Shape(re.compile(said), template, anonymous)


EXPIRED: Final = "Container not found."
"""For a container that nobody used for too long: what is in it is gone, and so is it."""

_SHAPES: Final = (
    _shape(r"[Cc]ontainer\b.{0,100}\bexpired", EXPIRED, EXPIRED),
    _shape(
        r"Previous response with id <ID1> not found",
        "Previous response with id '{id1}' not found.",
        "Previous response not found.",
    ),
    _shape(
        r"Item with id <ID1> not found\. Items are not persisted",
        "Item with id '{id1}' not found. Items are not persisted when `store` is set to false. Try again with `store` "
        "set to true, or remove this item from your input.",
        "An item was not found. Items are not persisted when `store` is set to false. Try again with `store` set to "
        "true, or remove this item from your input.",
    ),
    _shape(
        r"Item <ID1> of type <TYPE> was provided without its required following item",
        "Item '{id1}' of type '{word}' was provided without its required following item.",
        "An item of type '{word}' was provided without its required following item.",
    ),
    _shape(
        r"Item <ID1> of type <TYPE> was provided without its required '(?P<needed>[a-z_]{1,40})' item",
        "Item '{id1}' of type '{word}' was provided without its required '{needed}' item.",
        "An item of type '{word}' was provided without its required '{needed}' item.",
    ),
    _shape(
        r"[Ee]ncrypted content for item <ID1> could not be verified",
        "The encrypted content for item '{id1}' could not be verified.",
        "The encrypted content could not be verified.",
    ),
    _shape(
        r"[Ee]ncrypted content .{0,200}could not be (?:verified|decrypted)|organization_id did not match",
        "The encrypted content could not be verified.",
        "The encrypted content could not be verified.",
    ),
    _shape(
        r"No file found with id <ID1> in vector store <ID2>(?:\.|\s|$)",
        "No file found with id '{id1}' in vector store '{id2}'.",
        "No such file in this vector store.",
    ),
    _shape(
        rf"(?P<noun>{_NOUNS}) with id <ID1> not found", "{noun} with id '{id1}' not found.", "{noun} not found."
    ),
    _shape(
        rf"No (?:such )?(?P<noun>{_NOUNS.lower()})(?: object)?(?: found)? with id <ID1> ?(?:found|\.|$)",
        "No {noun} found with id '{id1}'.",
        "No such {noun}.",
    ),
    _shape(
        r"Invalid '(?P<param>[a-z_]{1,40}(?:\[\d{1,6}\])?(?:\.[a-z_]{1,40}(?:\[\d{1,6}\])?){0,8})': .{1,300}Expected an ID "
        r"that begins with '(?P<word>[a-z_]{1,16})'",
        "Invalid '{param}'. Expected an ID that begins with '{word}'.",
        "Invalid '{param}'. Expected an ID that begins with '{word}'.",
    ),
    _shape(
        r"Missing required parameter: '(?P<param>[a-z_]{1,40}(?:\[\d{1,6}\])?(?:\.[a-z_]{1,40}(?:\[\d{1,6}\])?){0,8})'",
        "Missing required parameter: '{param}'.",
        "Missing required parameter: '{param}'.",
    ),
    _shape(
        r"Unknown parameter: '(?P<param>[a-z_]{1,40}(?:\[\d{1,6}\])?(?:\.[a-z_]{1,40}(?:\[\d{1,6}\])?){0,8})'",
        "Unknown parameter: '{param}'.",
        "Unknown parameter: '{param}'.",
    ),
    _shape(
        r"Another process is currently operating on this conversation",
        "Another process is currently operating on this conversation. Please retry in a few seconds.",
        "",
    ),
    _shape(r"No tool output found for function call <ID1>\.",
           "No tool output found for function call {id1}.", "No tool output found for a function call."),
    _shape(r"No tool call found for function call output with call_id <ID1>\.",
           "No tool call found for function call output with call_id {id1}.",
           "No tool call found for a function call output."),
    _shape(r"does not have access to model|model .{1,100} does not exist",
           "The model does not exist or you do not have access to it.", ""),
    _shape(r"maximum context length|exceeds the context window",
           "Your input exceeds the context window of this model. Please adjust your input and try again.", ""),
    _shape(r"exceeded your current quota", "The quota is exhausted.", ""),
    _shape(r"Rate limit reached|Too [Mm]any [Rr]equests", "Rate limit reached.", ""),
)  # fmt: skip

_NEUTRAL_BY_CODE: Final = {
    "rate_limit_exceeded": "Rate limit reached.",
    "insufficient_quota": "The quota is exhausted.",
    "model_not_found": "The model does not exist or you do not have access to it.",
    "context_length_exceeded": (
        "Your input exceeds the context window of this model. Please adjust your input and try again."
    ),
    "previous_response_not_found": "Previous response not found.",
    "conversation_locked": (
        "Another process is currently operating on this conversation. Please retry in a few seconds."
    ),
    "invalid_encrypted_content": "The encrypted content could not be verified.",
    "server_error": "The upstream had an error while processing the request. Please try again.",
    "invalid_prompt": "The prompt was refused.",
    "content_policy_violation": "The request was refused by the content policy.",
    # Of batches, and of single lines.
    "invalid_json_line": "This line is not valid JSON.",
    "duplicate_custom_id": "An earlier line has the same custom_id.",
    "url_mismatch": "The url of this line is not the batch's endpoint.",
    "model_mismatch": "This line names another model than the lines before it.",
    "empty_file": "The file has no lines.",
    "too_many_tasks": "The file has too many lines.",
    "token_limit_exceeded": "Too many tokens wait in batches. Please try again once some of them are completed.",
    "batch_expired": "The request was not carried out before the batch expired.",
    "batch_cancelled": "The request was not carried out before the batch was cancelled.",
    "request_timeout": "The request took too long.",
}
_NEUTRAL_BY_TYPE: Final = {
    "invalid_request_error": "The upstream refused the request as invalid.",
    "requests": "Rate limit reached.",
    "tokens": "Rate limit reached.",
    "server_error": "The upstream had an error while processing the request. Please try again.",
    "not_found_error": "The object was not found.",
    "image_generation_user_error": "The image could not be generated.",
}
_NEUTRAL_BY_STATUS: Final = {
    400: "The upstream refused the request as invalid.",
    404: "The object was not found.",
    409: "The request conflicts with another one.",
    413: "The request is too large.",
    422: "The upstream refused the request as invalid.",
    429: "Rate limit reached.",
}
_NEUTRAL: Final = "The upstream reported an error."

_RETRY: Final = re.compile(r"[Pp]lease try again in (\d{1,6}(?:\.\d{1,6})?) ?(ms|s|m|seconds?|minutes?)(?![A-Za-z0-9])")
_LONG_RETRY: Final = re.compile(r"[Pp]lease try again in (\d{1,3}h)?(\d{1,4}m)(\d{1,2}(?:\.\d{1,6})?s)?(?![A-Za-z0-9])")
_SAFE_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SAFE_PARAM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]]{0,127}")
_LONGEST_READ: Final = 4096


def rebuild(error: Mapping[str, Any], quote: Callable[[str], str], status: int = 0) -> Rebuilt:
    """What the client reads for the upstream's `error` object.

    `quote`: what the client itself sent for a word of the message, or nothing (`IdTable.quote`). `status`: the HTTP
    status, where there is one. The result is a fixed point: rebuilding it again changes nothing.
    """
    type_ = _safe(error.get("type"), _SAFE_WORD)
    code = _safe(error.get("code"), _SAFE_WORD)
    message = error.get("message")
    said = message[:_LONGEST_READ] if isinstance(message, str) else ""
    text = _recognized(said, quote) or _neutral(said, code, type_, status)
    if (wait := _retry(said)) and wait not in text:
        text = f"{text} {wait}"
    fallback = "invalid_request_error" if 400 <= status < 500 else "server_error"
    return Rebuilt(text, type_ or fallback, code, _safe(error.get("param"), _SAFE_PARAM))


def _recognized(said: str, quote: Callable[[str], str]) -> str:
    for shape in _SHAPES:
        if found := shape.said.search(said):
            groups = {name: text for name, text in found.groupdict().items() if text is not None}
            quoted = {name: quote(text) for name, text in groups.items() if name.startswith("id")}
            words = {name: text for name, text in groups.items() if not name.startswith("id")}
            if any(find_raw(text) for text in words.values()):
                return ""
            own = shape.template if all(quoted.values()) or not shape.anonymous else shape.anonymous
            return own.format(**quoted, **words)
    return ""


_OUR_SENTENCES: Final = frozenset(
    {*_NEUTRAL_BY_CODE.values(), *_NEUTRAL_BY_TYPE.values(), *_NEUTRAL_BY_STATUS.values(), _NEUTRAL}
    | {shape.anonymous for shape in _SHAPES if shape.anonymous and "{" not in shape.anonymous}
    | {shape.template for shape in _SHAPES if "{" not in shape.template}
)
_OUR_ANONYMOUS: Final = re.compile(
    rf"(?:{_NOUNS}) not found\.|No such (?:{_NOUNS.lower()})\."
    r"|An item of type '[a-z_]{1,40}' was provided without its required (?:following|'[a-z_]{1,40}') item\."
    r"|Invalid '[a-z_.\[\]0-9]{1,128}'\. Expected an ID that begins with '[a-z_]{1,16}'\."
)


def _neutral(said: str, code: str | None, type_: str | None, status: int) -> str:
    bare = _RETRY.sub("", _LONG_RETRY.sub("", said)).rstrip(" .") + "."
    for kept in (said, bare):
        if kept in _OUR_SENTENCES or _OUR_ANONYMOUS.fullmatch(kept):
            return kept
    return (
        _NEUTRAL_BY_CODE.get(code or "")
        or _NEUTRAL_BY_TYPE.get(type_ or "")
        or _NEUTRAL_BY_STATUS.get(status)
        or _NEUTRAL
    )


def _retry(said: str) -> str:
    """The upstream's advice when to come back. Codex reads it to wait."""
    if found := _RETRY.search(said) or _LONG_RETRY.search(said):
        return f"Please try again in {found.group().split(' in ', 1)[1]}."
    return ""


def _safe(value: object, pattern: re.Pattern[str]) -> str | None:
    """`value`, if it is a plain word or path that cannot be an ID."""
    if isinstance(value, str) and pattern.fullmatch(value) and not find_raw(value):
        return value
    return None
