"""Items of OpenAI's Realtime transcription: recognizer events in, protocol messages out.

An item is a section of the audio. The concatenated deltas of an item must equal the transcript in its `completed`
event, because a delta cannot be taken back. So the contents of a delta depend on the recognizer:

- With a second pass, an utterance's text is known only at its end. Each final is one delta.
- Without one, stable words of partials are sent immediately, the rest with the final. If the neural language model
  changes a stable word in a final (3 of 100), the word that was sent is kept.

On request, deltas and transcripts have word times and `logprobs`, and transcripts have alternatives. Those of a
transcript are the concatenation of those of its deltas.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial, spaced, timed_word
from asr.streaming.server.protocols.common import logprobs

TRANSCRIPTION = "conversation.item.input_audio_transcription"
LONG = 50
"""An item is long from this number of words, or of alternatives, on."""


class Mark(Event):
    """A command of the client, queued among the recognizer's events. `end`: seconds of audio before it.

    text: "commit" and "clear" commit or discard the item; "vad" and "manual" set whether later finals end an item.
    """

    type = "mark"


class Items:
    """The items of a session, in order."""

    _sent: list[str]
    """Words of the current utterance that were sent in deltas."""

    def __init__(self, old_form: bool, live: bool, vad: bool = True) -> None:
        """old_form: send the events from before `conversation.item.added`. live: send stable words of partials.

        vad: whether each final ends an item.
        """
        self.old_form = old_form
        self.live = live
        self.details: frozenset[str] = frozenset()
        """Optional fields that the client requested: "words", "logprobs", "alternatives"."""
        self._vad = vad
        self._previous_id: str | None = None
        self._begin(0.0)

    @property
    def is_long(self) -> bool:
        """Whether making the messages at its end takes so long that it must be done on a thread."""
        return len(self._words) + len(self._alternatives) >= LONG

    def take(self, event: Event) -> Iterator[dict[str, Any]]:
        """The messages for `event`, complete except for their event_id."""
        words = event.words
        texts = [word.word for word in words]
        if isinstance(event, Partial):
            if words:
                yield from self._speech_started(event)
            else:
                self._sent = []  # the utterance became empty; words already sent stay
            if self.live and texts[: len(self._sent)] == self._sent:
                yield from self._delta(words[len(self._sent) : event.num_stable])
        elif isinstance(event, Final):
            yield from self._speech_started(event)
            yield from self._delta(words[num_covered(self._sent, texts) :])
            self._sent = []
            utterance = {"start": round(event.start, 3), "end": round(event.end, 3)}
            self._alternatives += [utterance | other.to_dict() for other in event.alternatives]
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
        self._transcript = ""  # all deltas so far
        self._words: list[Word] = []  # words of the transcript
        self._alternatives: list[dict[str, Any]] = []
        self._sent = []

    def _speech_started(self, event: Event) -> Iterator[dict[str, Any]]:
        if self._vad and not self._started:
            self._started = True
            start_ms = round(event.start * 1000)
            yield {"type": "input_audio_buffer.speech_started", "audio_start_ms": start_ms, "item_id": self._id}

    def _delta(self, words: Sequence[Word]) -> Iterator[dict[str, Any]]:
        if words:
            texts = [word.word for word in words]
            delta = "".join(spaced(texts, self._transcript))
            details = self._details(words, self._transcript)
            self._transcript += delta
            self._words += words
            self._sent += texts
            yield {"type": f"{TRANSCRIPTION}.delta", "item_id": self._id, "content_index": 0, "delta": delta} | details

    def _details(self, words: Sequence[Word], before: str) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if "words" in self.details:
            details["words"] = [timed_word(word) for word in words]
        if "logprobs" in self.details:
            details["logprobs"] = logprobs(words, before)
        return details

    def _complete(self, end_s: float) -> Iterator[dict[str, Any]]:
        place = {"previous_item_id": self._previous_id}
        yield {"type": "input_audio_buffer.committed", "item_id": self._id} | place
        item = {"id": self._id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user"}
        content = [{"type": "input_audio", "transcript": self._transcript}]
        for name in ("created",) if self.old_form else ("added", "done"):
            yield {"type": f"conversation.item.{name}", "item": item | {"content": content}} | place
        # Rounded to milliseconds, because otherwise 3.4 to 4.4 would be slightly more than a second.
        usage = {"type": "duration", "seconds": math.ceil(round(end_s - self._start_s, 3))}
        details = self._details(self._words, before="")
        if "alternatives" in self.details:
            details["alternatives"] = self._alternatives
        yield {
            "type": f"{TRANSCRIPTION}.completed",
            "item_id": self._id,
            "content_index": 0,
            "transcript": self._transcript,
            "usage": usage,
        } | details
        self._previous_id = self._id
        self._begin(end_s)


def num_covered(sent: list[str], words: list[str]) -> int:
    """The number of leading words of a final that the words already sent stand for.

    If the two differ, counting starts at the last common word: the words sent after it replace as many words of the
    final.
    """
    matches = [
        block for block in SequenceMatcher(None, sent, words, autojunk=False).get_matching_blocks() if block.size
    ]
    if not matches:
        return len(sent)
    last = matches[-1]
    return last.b + len(sent) - last.a
