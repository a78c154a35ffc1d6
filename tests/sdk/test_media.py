"""The official SDK, unmodified, on sound and on images that are made of others."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from gateway.demo.stand_in.forms import Form, read
from tests.stand_in_fixture import Running

MODEL = "gpt-5"
DEPRECATED = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
SOUND = b"Keep my coat, please."


def received(stand_in: Running) -> Form:
    """The form that reached the service last."""
    last = stand_in.provider.received[-1]
    return read(last.header("content-type") or "", last.body)


# --- sound ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "media_type"), [("mp3", "audio/mpeg"), ("wav", "audio/wav"), ("opus", "audio/opus"), ("pcm", "audio/pcm")]
)
async def test_speech_comes_as_the_bytes_that_the_service_sent(alice: AsyncOpenAI, form: Any, media_type: str) -> None:
    said = await alice.audio.speech.create(model=MODEL, voice="alloy", input="hello", response_format=form)
    assert said.content == b"hello" * 100
    assert said.response.headers["content-type"] == media_type


async def test_speech_is_streamed_to_a_file(alice: AsyncOpenAI, tmp_path: Path) -> None:
    async with alice.audio.speech.with_streaming_response.create(model=MODEL, voice="alloy", input="hello") as said:
        await said.stream_to_file(tmp_path / "said.mp3")
    assert (tmp_path / "said.mp3").read_bytes() == b"hello" * 100


async def test_speech_comes_as_events(alice: AsyncOpenAI) -> None:
    async with alice.audio.speech.with_streaming_response.create(
        model=MODEL, voice="alloy", input="hello", stream_format="sse"
    ) as said:
        lines = [line async for line in said.iter_lines() if line.startswith("data: ")]
    assert '"speech.audio.done"' in lines[-1]
    assert all('"speech.audio.delta"' in line for line in lines[:-1])


@pytest.mark.parametrize("voice", [{"id": "voice_1234"}, "voice_1234", " Voice_1234", "voice_" + "0a" * 16])
async def test_a_voice_that_is_nobodys_reads_as_missing(alice: AsyncOpenAI, stand_in: Running, voice: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="Voice"):
        await alice.audio.speech.create(model=MODEL, voice=voice, input="hello")
    assert not stand_in.provider.received


@DEPRECATED
async def test_a_recording_is_written_down_in_every_form(alice: AsyncOpenAI, stand_in: Running) -> None:
    said = await alice.audio.transcriptions.create(model=MODEL, file=("a.wav", SOUND), prompt="coats", language="en")
    assert said.text == SOUND.decode()
    assert received(stand_in).texts == {"model": MODEL, "prompt": "coats", "language": "en"}
    for form, expected in (("text", f"{SOUND.decode()}\n"), ("srt", "1\n00:00:00"), ("vtt", "WEBVTT")):
        written: Any = await alice.audio.transcriptions.create(
            model=MODEL,
            file=("a.wav", SOUND),
            response_format=form,  # type: ignore[call-overload]
        )
        assert isinstance(written, str)
        assert written.startswith(expected)
    verbose = await alice.audio.transcriptions.create(
        model=MODEL, file=("a.wav", SOUND), response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert verbose.segments
    assert (verbose.segments[0].id, verbose.segments[0].text) == (0, SOUND.decode())
    told = await alice.audio.transcriptions.create(
        model=MODEL,
        file=("a.wav", SOUND),
        response_format="diarized_json",
        chunking_strategy="auto",
        known_speaker_names=["A", "B"],
        known_speaker_references=["data:audio/wav;base64,aGVsbG8="] * 2,
    )
    assert told.segments[0].id == "seg_001"
    assert (await alice.audio.translations.create(model=MODEL, file=("a.wav", SOUND))).text == SOUND.decode()


async def test_a_transcript_is_streamed(alice: AsyncOpenAI) -> None:
    stream = await alice.audio.transcriptions.create(model=MODEL, file=("a.wav", SOUND), stream=True)
    events = [event async for event in stream]
    deltas = "".join(event.delta for event in events if event.type == "transcript.text.delta")
    assert deltas == SOUND.decode()
    assert events[-1].type == "transcript.text.done"


async def test_a_fine_tuned_model_and_a_raw_id_reach_nobody_in_a_form(alice: AsyncOpenAI, stand_in: Running) -> None:
    raw = stand_in.provider.new_attachment("file-")
    for more in ({"x_new": raw}, {"x_new": f'{{"file_id":"{raw}"}}'}, {"x[a][]": f"a,{raw}"}):
        with pytest.raises(openai.NotFoundError):
            await alice.audio.transcriptions.create(model=MODEL, file=SOUND, extra_body=more)
    with pytest.raises(openai.NotFoundError):
        await alice.audio.transcriptions.create(model="ft:gpt-4o-mini:acme::abcdefgh", file=SOUND)
    assert not stand_in.provider.received


# --- images ---------------------------------------------------------------------------------------------------------


async def test_images_are_edited_as_a_form(alice: AsyncOpenAI, stand_in: Running) -> None:
    pictures = [("a.png", b"a" * 300_000, "image/png"), ("b.png", b"b", "image/png")]
    made = await alice.images.edit(
        model="gpt-image-1", image=pictures, mask=("m.png", b"m", "image/png"), prompt="a coat", user="u"
    )
    assert made.data
    assert base64.b64decode(made.data[0].b64_json or "")
    form = received(stand_in)
    assert [(one.filename, one.data) for one in form.files["image"]] == [(p[0], p[1]) for p in pictures]
    assert form.file("mask").data == b"m"
    assert form.texts["prompt"] == "a coat"
    assert form.texts["user"] != "u"
    assert form.texts["safety_identifier"]
    assert made.to_dict().get("safety_identifier") is None
    one = await alice.images.edit(image=pictures[0], prompt="a coat")
    assert one.data


async def test_images_are_edited_as_json_that_names_ones_own_files(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    made = await alice.files.create(file=("a.png", b"a"), purpose="vision")
    (raw,) = stand_in.provider.files
    body: Any = {"prompt": "a coat", "images": [{"file_id": made.id}], "mask": {"file_id": made.id}}
    await alice.post("/images/edits", body=body, cast_to=object)
    assert stand_in.provider.received[-1].json()["images"] == [{"file_id": raw}]
    assert stand_in.provider.received[-1].json()["mask"] == {"file_id": raw}
    with pytest.raises(openai.NotFoundError):
        await bob.post("/images/edits", body=body, cast_to=object)


async def test_an_edit_is_streamed(alice: AsyncOpenAI) -> None:
    stream = await alice.images.edit(model="gpt-image-1", image=b"a", prompt="a coat", stream=True, partial_images=2)
    events = [event.type async for event in stream]
    assert events == ["image_edit.partial_image"] * 2 + ["image_edit.completed"]


@DEPRECATED
async def test_an_image_is_varied(alice: AsyncOpenAI, stand_in: Running) -> None:
    made = await alice.images.create_variation(image=("a.png", b"a"), n=2, user="u")
    assert made.data
    assert len(made.data) == 2
    assert received(stand_in).texts["user"] != "u"
