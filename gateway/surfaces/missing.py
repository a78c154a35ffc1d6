"""OpenAI's own answer for an object that does not exist, by the kind of place at which it was named."""

from __future__ import annotations

from typing import Final

from gateway.errors import Missing
from gateway.names import Kind

PREVIOUS_RESPONSE: Final = Missing(
    400, "Previous response with id '{quoted}' not found.", "previous_response_id", "previous_response_not_found"
)
INPUT_ITEM: Final = Missing(
    404,
    "Item with id '{quoted}' not found. Items are not persisted when `store` is set to false. Try again with `store` "
    "set to true, or remove this item from your input.",
    "input",
)
MODEL: Final = Missing(
    404, "The model '{quoted}' does not exist or you do not have access to it.", None, "model_not_found"
)

BY_KIND: Final[dict[Kind, Missing]] = {
    Kind.RESPONSE: Missing(404, "Response with id '{quoted}' not found."),
    Kind.CONVERSATION: Missing(404, "Conversation with id '{quoted}' not found."),
    Kind.ITEM: Missing(404, "Item with id '{quoted}' not found."),
    Kind.FILE: Missing(404, "No such File object: {quoted}", "id"),
    Kind.UPLOAD: Missing(404, "Upload with id '{quoted}' not found."),
    Kind.UPLOAD_PART: Missing(404, "Part with id '{quoted}' not found."),
    Kind.VECTOR_STORE: Missing(404, "Vector store with id '{quoted}' not found."),
    Kind.VECTOR_STORE_BATCH: Missing(404, "File batch with id '{quoted}' not found."),
    Kind.BATCH: Missing(404, "No batch found with id '{quoted}'."),
    Kind.CONTAINER: Missing(404, "Container with id '{quoted}' not found."),
    Kind.CONTAINER_FILE: Missing(404, "Container file with id '{quoted}' not found."),
    Kind.CHAT_COMPLETION: Missing(404, "Chat completion with id '{quoted}' not found."),
    Kind.CHAT_MESSAGE: Missing(404, "Message with id '{quoted}' not found."),
    Kind.CHAT_AUDIO: Missing(404, "Audio with id '{quoted}' not found.", "messages"),
    Kind.SKILL: Missing(404, "Skill with id '{quoted}' not found."),
    Kind.PROMPT: Missing(404, "Prompt with id '{quoted}' not found."),
    Kind.TUNNEL: Missing(404, "Tunnel with id '{quoted}' not found."),
    Kind.VOICE: Missing(404, "Voice with id '{quoted}' not found."),
    Kind.FINE_TUNING_JOB: Missing(404, "Could not find fine tune: {quoted}", "fine_tune_id", "fine_tune_not_found"),
    Kind.VIDEO: Missing(404, "Video with id '{quoted}' not found."),
    Kind.SKILL_VERSION: Missing(404, "Skill version with id '{quoted}' not found."),
    Kind.FINE_TUNING_EVENT: Missing(404, "Fine-tuning event with id '{quoted}' not found."),
    Kind.CHECKPOINT: Missing(404, "Fine-tuning checkpoint with id '{quoted}' not found."),
    Kind.FINE_TUNED_MODEL: MODEL,
    Kind.CALL: Missing(404, "Call with id '{quoted}' not found.", "call_id"),
}


def missing_for(kind: Kind, own: Missing | None) -> Missing:
    """The place's own answer, else the kind's."""
    return own or BY_KIND[kind]
