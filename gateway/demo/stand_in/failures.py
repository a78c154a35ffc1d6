"""What the stand-in refuses, in the words and shapes of the OpenAI API. The texts quote raw IDs, as the real ones do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Failure(Exception):
    """An error answer: HTTP status and the four fields of OpenAI's error object."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The JSON value of the answer."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def no_key() -> Failure:
    """No bearer key was sent."""
    return Failure(
        401,
        "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
        "(i.e. Authorization: Bearer YOUR_KEY).",
    )


def wrong_key(key: str) -> Failure:
    """The key is not the one that is accepted; the text shows its two ends."""
    shown = f"{key[:4]}{'*' * 8}{key[-4:]}"
    return Failure(401, f"Incorrect API key provided: {shown}.", code="invalid_api_key")


def unknown_url(method: str, path: str) -> Failure:
    return Failure(404, f"Invalid URL ({method} {path})")


def method_not_allowed(method: str, path: str) -> Failure:
    return Failure(405, f"Not allowed to {method} on {path}.")


def response_not_found(raw: str) -> Failure:
    return Failure(404, f"Response with id '{raw}' not found.")


def previous_response_not_found(raw: str) -> Failure:
    return Failure(
        400,
        f"Previous response with id '{raw}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def conversation_not_found(raw: str) -> Failure:
    return Failure(404, f"Conversation with id '{raw}' not found.")


def chat_not_found(raw: str) -> Failure:
    return Failure(404, f"Chat completion with id '{raw}' not found.")


def audio_not_found(raw: str) -> Failure:
    return Failure(404, f"Audio with id '{raw}' not found.", param="messages")


def item_not_found(raw: str, *, persisted_hint: bool = False) -> Failure:
    hint = (
        " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item "
        "from your input."
        if persisted_hint
        else ""
    )
    return Failure(404, f"Item with id '{raw}' not found.{hint}", param="input" if persisted_hint else None)


def conversation_and_previous() -> Failure:
    return Failure(
        400,
        "Mutually exclusive parameters: 'conversation' and 'previous_response_id'. "
        "Ensure you are only providing one of: 'previous_response_id' or 'conversation'.",
        code="mutually_exclusive_parameters",
    )


def conversation_locked(raw: str) -> Failure:
    return Failure(
        400,
        f"Another process is currently operating on this conversation ({raw}). Please retry in a few seconds.",
        code="conversation_locked",
    )


def wrong_prefix(place: str, raw: str, prefix: str) -> Failure:
    return Failure(
        400,
        f"Invalid '{place}': '{raw}'. Expected an ID that begins with '{prefix}'.",
        param=place,
        code="invalid_value",
    )


def wrong_characters(place: str, raw: str) -> Failure:
    return Failure(
        400,
        f"Invalid '{place}': '{raw}'. Expected an ID that contains letters, numbers, underscores, or dashes, but this "
        "value contained additional characters.",
        param=place,
        code="invalid_value",
    )


def too_long(place: str, length: int, most: int = 64) -> Failure:
    return Failure(
        400,
        f"Invalid '{place}': string too long. Expected a string with maximum length {most}, but got a string with length "
        f"{length} instead.",
        param=place,
        code="string_above_max_length",
    )


def wrong_type(place: str, expected: str) -> Failure:
    return Failure(400, f"Invalid type for '{place}': expected {expected}.", param=place, code="invalid_type")


def missing(place: str) -> Failure:
    return Failure(400, f"Missing required parameter: '{place}'.", param=place, code="missing_required_parameter")


def duplicate_item(raw: str) -> Failure:
    return Failure(
        400,
        f"Duplicate item found with id {raw}. Remove duplicate items from your input and try again.",
        param="input",
    )


def reasoning_alone(raw: str) -> Failure:
    return Failure(
        400, f"Item '{raw}' of type 'reasoning' was provided without its required following item.", param="input"
    )


def call_without_reasoning(raw: str, kind: str, reasoning: str) -> Failure:
    return Failure(
        400,
        f"Item '{raw}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'.",
        param="input",
    )


def output_without_call(call_id: str) -> Failure:
    return Failure(400, f"No tool call found for function call output with call_id {call_id}.", param="input")


def call_without_output(call_id: str) -> Failure:
    return Failure(400, f"No tool output found for function call {call_id}.", param="input")


def approval_not_found(raw: str) -> Failure:
    return Failure(400, f"No approval request found with id '{raw}'.", param="input")


def bad_encrypted_content(raw: str, blob: str, organization: str) -> Failure:
    shown = f"{blob[:4]}...{blob[-4:]}"
    return Failure(
        400,
        f"The encrypted content for item {raw} could not be verified. Reason: Encrypted content {shown} could not be "
        f"decrypted or parsed for organization {organization}.",
        code="invalid_encrypted_content",
    )


def file_not_found(raw: str) -> Failure:
    return Failure(404, f"No such File object: {raw}", param="id")


def vector_store_not_found(raw: str) -> Failure:
    return Failure(404, f"Vector store with id '{raw}' not found.")


def skill_not_found(raw: str) -> Failure:
    return Failure(404, f"Skill with id '{raw}' not found.")


def tunnel_not_found(raw: str) -> Failure:
    return Failure(404, f"Tunnel with id '{raw}' not found.")


def prompt_not_found(raw: str) -> Failure:
    return Failure(404, f"Prompt with id '{raw}' not found.")


def container_not_found(raw: str) -> Failure:
    return Failure(404, f"Container with id '{raw}' not found.")


def container_expired() -> Failure:
    return Failure(400, "Container is expired.")


def model_not_found(model: str, project: str) -> Failure:
    return Failure(
        404,
        f"Project `{project}` does not have access to model `{model}`",
        param="model",
        code="model_not_found",
    )


def not_cancellable(raw: str) -> Failure:
    return Failure(400, f"Cannot cancel a synchronous response ('{raw}').")


def unsupported_content_type(value: str) -> Failure:
    return Failure(
        400,
        f"Unsupported content type: '{value}'. This API method only accepts 'application/json' requests, but you "
        "specified the header 'Content-Type: " + value + "'. Please try again with a supported content type.",
    )


def unknown_script_words(words: list[str]) -> Failure:
    """No answer of the real service: the script itself is wrong."""
    return Failure(400, f"The script holds unknown words: {', '.join(words)}.", code="unknown_script_word")


def socket_limit_reached() -> Failure:
    return Failure(
        400,
        "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
        code="websocket_connection_limit_reached",
    )


def malformed_json() -> Failure:
    return Failure(400, "We could not parse the JSON body of your request.")


def rate_limited(model: str, organization: str) -> Failure:
    return Failure(
        429,
        f"Rate limit reached for {model} in organization {organization} on tokens per min (TPM): Limit 30000, "
        "Used 29870, Requested 1200. Please try again in 20s. Visit https://platform.openai.com/account/rate-limits "
        "to learn more.",
        type="tokens",
        code="rate_limit_exceeded",
        headers={"retry-after": "20", "retry-after-ms": "20000"},
    )


def server_error(status: int, request_id: str) -> Failure:
    return Failure(
        status,
        "The server had an error processing your request. Sorry about that! You can retry your request, or contact us "
        f"through our help center at help.openai.com if you keep seeing this error. (Please include the request ID "
        f"{request_id} in your email.)",
        type="server_error",
    )


def forbidden(project: str) -> Failure:
    return Failure(403, f"Project `{project}` does not have access to this resource.", code="project_forbidden")
