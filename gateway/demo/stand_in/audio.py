"""The endpoints under /v1/audio: speech that is no sound, and transcripts that are the sound's own bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, BytesAnswer, JsonAnswer, Request, StreamAnswer
from gateway.demo.stand_in.inputs import check_model
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider

_MEDIA = {
    "mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav",
    "pcm": "audio/pcm",
}  # fmt: skip
_USAGE = {"type": "tokens", "input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


def speak(provider: Provider, request: Request) -> Answer:
    """`POST /v1/audio/speech`: the text's bytes, a hundred times."""
    body = request.json()
    check_model(provider, body)
    voice = body.get("voice")
    if isinstance(voice, dict) and voice.get("id") not in provider.ids.attachable:
        raise failures.Failure(404, f"Voice with id '{voice.get('id')}' not found.")
    sound = str(body.get("input")).encode() * 100
    if body.get("stream_format") == "sse":
        return StreamAnswer(_spoken(sound))
    return BytesAnswer(sound, _MEDIA[str(body.get("response_format") or "mp3")])


def transcribe(provider: Provider, request: Request) -> Answer:
    """`POST /v1/audio/transcriptions`."""
    form = request.form()
    text = form.file("file").data.decode("utf-8", "replace")
    if form.texts.get("stream") == "true":
        return StreamAnswer(_heard(text))
    return _written(text, form.texts.get("response_format", "json"), "transcribe")


def translate(provider: Provider, request: Request) -> Answer:
    """`POST /v1/audio/translations`."""
    form = request.form()
    text = form.file("file").data.decode("utf-8", "replace")
    return _written(text, form.texts.get("response_format", "json"), "translate")


def _written(text: str, form: str, task: str) -> Answer:
    segment = {"start": 0.0, "end": 1.5, "text": text}
    match form:
        case "text":
            return BytesAnswer(f"{text}\n".encode(), "text/plain; charset=utf-8")
        case "srt":
            return BytesAnswer(f"1\n00:00:00,000 --> 00:00:01,500\n{text}\n".encode(), "text/plain; charset=utf-8")
        case "vtt":
            return BytesAnswer(f"WEBVTT\n\n00:00.000 --> 00:01.500\n{text}\n".encode(), "text/plain; charset=utf-8")
        case "verbose_json":
            segments: list[Json] = [{"id": 0, **segment, "tokens": [1], "temperature": 0.0, "seek": 0}]
            return JsonAnswer(
                {"task": task, "language": "english", "duration": 1.5, "text": text, "segments": segments}
            )
        case "diarized_json":
            segments = [{"id": "seg_001", "type": "transcript.text.segment", "speaker": "A", **segment}]
            return JsonAnswer({"task": task, "duration": 1.5, "text": text, "segments": segments})
        case _:
            return JsonAnswer({"text": text, "usage": _USAGE})


def _spoken(sound: bytes) -> Iterator[Json]:
    for at in range(0, len(sound), 300):
        yield {"type": "speech.audio.delta", "audio": base64.b64encode(sound[at : at + 300]).decode()}
    yield {"type": "speech.audio.done", "usage": _USAGE}


def _heard(text: str) -> Iterator[Json]:
    for at in range(0, len(text), 5):
        yield {"type": "transcript.text.delta", "delta": text[at : at + 5], "segment_id": "seg_001"}
    yield {"type": "transcript.text.segment", "id": "seg_001", "speaker": "A", "start": 0.0, "end": 1.5, "text": text}
    yield {"type": "transcript.text.done", "text": text, "usage": _USAGE}
