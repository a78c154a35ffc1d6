"""Speech and its transcription (https://platform.openai.com/docs/api-reference/audio). Nothing of it is kept by the service."""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import (
    FILE,
    MEDIA,
    PLAIN,
    SPEECH,
    USER,
    Each,
    Either,
    Id,
    Obj,
    Role,
    Spec,
    Typed,
)

_SAID: Final[dict[str, Spec]] = {"type": PLAIN, "text": SPEECH, "logprobs": SPEECH}

# A segment is told by a number or `seg_001`, which names nothing that could be asked for.
_SEGMENT: Final = Obj({"id": PLAIN, "type": PLAIN, "speaker": PLAIN, "text": SPEECH})

EVENT: Final = Typed(
    {
        "speech.audio.delta": Obj({"type": PLAIN, "audio": MEDIA}),
        "speech.audio.done": Obj({"type": PLAIN}),
        "transcript.text.delta": Obj({"type": PLAIN, "delta": SPEECH, "segment_id": PLAIN, "logprobs": SPEECH}),
        "transcript.text.segment": _SEGMENT,
        "transcript.text.done": Obj(_SAID),
    },
    other=Obj({"type": PLAIN}),
)

TRANSCRIPT: Final = Obj({**_SAID, "segments": Each(_SEGMENT), "words": Each(Obj({"word": SPEECH}))})

# The service's own have names; somebody's is told by its ID, as a string or in an object.
VOICE: Final = Either(Id(Kind.VOICE, Role.REF, only="voice_"), Obj({"id": Id(Kind.VOICE, Role.REF)}))

_AUDIO: Final[dict[str, Spec]] = {"file": FILE, "model": PLAIN, "prompt": USER}
_TEXTS: Final = (b"text/", b"application/x-subrip")

ROUTES: Final = (
    Route(
        "audio.speech.create",
        "POST",
        "/audio/speech",
        "speaks a text",
        Obj({}),
        Body.JSON,
        Obj(
            {
                "model": PLAIN,
                "input": USER,
                "instructions": USER,
                "voice": VOICE,
            }
        ),
        events=EVENT,
        media=(b"audio/", b"application/octet-stream"),
        keeps=False,
    ),
    Route(
        "audio.transcriptions.create",
        "POST",
        "/audio/transcriptions",
        "writes down what is said",
        TRANSCRIPT,
        Body.FORM,
        Obj({**_AUDIO, "keywords": USER, "known_speaker_names": USER, "known_speaker_references": Each(MEDIA)}),
        events=EVENT,
        media=_TEXTS,
        keeps=False,
    ),
    Route(
        "audio.translations.create",
        "POST",
        "/audio/translations",
        "writes down in English what is said",
        TRANSCRIPT,
        Body.FORM,
        Obj(_AUDIO),
        media=_TEXTS,
        keeps=False,
    ),
)
