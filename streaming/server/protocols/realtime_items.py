"""How what is heard becomes items of OpenAI's Realtime transcription: events of the recogniser in, messages out.

An item is a stretch of the audio. Deltas are never taken back: they carry words as soon as they are stable, and the
rest when the utterance has ended. Where a final differs from what was sent, `completed` is what holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from asr.streaming.events import Event, Final, Partial

TRANSCRIPTION = "conversation.item.input_audio_transcription"


class Mark(Event):
    """Said by the client, between the recogniser's events; `end`: seconds of audio that came before.

    text: "commit" | "clear", what becomes of the item; "vad" | "manual", whether from here on each final ends an item.
    """

    type = "mark"


class Items:
    """The items of a session, one after the other."""

    def __init__(self, old_form: bool) -> None:
        """old_form: with the events of the time before `conversation.item.added`."""
        self.old_form = old_form
        self._vad = True
        self._previous_id: str | None = None
        self._texts: list[str] = []
        self._begin(0.0)

    def take(self, event: Event) -> Iterator[dict[str, Any]]:
        """What the client is told about it: messages that lack only their event_id."""
        words = event.text.split()
        if isinstance(event, Partial):
            if words:
                yield from self._speech_started(event)
            yield from self._delta(words[: event.num_stable])
        elif isinstance(event, Final):
            yield from self._speech_started(event)
            yield from self._delta(words)
            self._texts.append(event.text)
            self._num_sent = 0
            if self._vad:
                end_ms = round(event.end * 1000)
                yield {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": end_ms, "item_id": self._id}
                yield from self._complete(event.end)
        elif isinstance(event, Mark):
            if event.text == "commit":
                yield from self._complete(event.end)
            elif event.text == "clear":
                self._begin(event.end)
                yield {"type": "input_audio_buffer.cleared"}
            else:
                self._vad = event.text == "vad"

    def _begin(self, start_s: float) -> None:
        self._id = f"item_{uuid.uuid4().hex}"
        self._start_s = start_s
        self._started = False
        self._texts = []
        self._num_sent = 0  # words of the utterance
        self._empty = True

    def _speech_started(self, event: Event) -> Iterator[dict[str, Any]]:
        if self._vad and not self._started:
            self._started = True
            start_ms = round(event.start * 1000)
            yield {"type": "input_audio_buffer.speech_started", "audio_start_ms": start_ms, "item_id": self._id}

    def _delta(self, words: list[str]) -> Iterator[dict[str, Any]]:
        """`words` of the utterance hold; what of them the client does not have yet."""
        new = words[self._num_sent :]
        if new:
            delta = " ".join(new) if self._empty else " " + " ".join(new)
            self._num_sent, self._empty = len(words), False
            yield {"type": f"{TRANSCRIPTION}.delta", "item_id": self._id, "content_index": 0, "delta": delta}

    def _complete(self, end_s: float) -> Iterator[dict[str, Any]]:
        transcript = " ".join(self._texts)
        place = {"previous_item_id": self._previous_id}
        yield {"type": "input_audio_buffer.committed", "item_id": self._id} | place
        item = {"id": self._id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user"}
        content = [{"type": "input_audio", "transcript": transcript}]
        for name in ("created",) if self.old_form else ("added", "done"):
            yield {"type": f"conversation.item.{name}", "item": item | {"content": content}} | place
        usage = {"type": "duration", "seconds": round(end_s - self._start_s, 3)}
        yield {
            "type": f"{TRANSCRIPTION}.completed",
            "item_id": self._id,
            "content_index": 0,
            "transcript": transcript,
            "usage": usage,
        }
        self._previous_id = self._id
        self._begin(end_s)
