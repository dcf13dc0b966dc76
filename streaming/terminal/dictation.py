"""Dictation: live captions whose stable words are typed. Can be paused, which closes the microphone.

The time of the stream does not advance during a pause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from asr.streaming.audio.microphone import MicrophoneError
from asr.streaming.terminal.live import WAIT_S, Live, Source

if TYPE_CHECKING:
    from asr.streaming.audio.microphone import Microphone
    from asr.streaming.events import Event
    from asr.streaming.terminal.output import Output
    from asr.streaming.terminal.toggle import Switch
    from asr.streaming.terminal.typing_thread import TypingThread


class Dictation(Live):
    """A `Live` that `switch` pauses and `typing` types."""

    def __init__(
        self,
        source: Source,
        open_microphone: Callable[[], Microphone],
        switch: Switch,
        typing: TypingThread,
        output: Output,
        with_stats: bool,
    ) -> None:
        """open_microphone: called after a pause. `source` has no microphone if dictation begins paused."""
        super().__init__([source], output, with_stats)
        self._source = source
        self._open_microphone = open_microphone
        self._switch = switch
        self._typing = typing

    def step(self) -> bool:
        self._switch.wait(0.0 if self._source.microphone else WAIT_S)
        if self._switch.on and not self._source.microphone:
            self._resume()
        elif not self._switch.on and self._source.microphone:
            self._pause()
        if error := self._typing.new_error():
            self._warn(error)
        if self._source.microphone:
            return super().step()
        if self._status_view:
            self._status_view.draw_paused()
        return False

    def finish(self) -> None:
        self._drain()
        self._recognize(self._source, self._source.stream.finish)
        self._typing.close()
        if error := self._typing.new_error():
            self._output.warn(error)

    def _pause(self) -> None:
        self._drain()
        self._recognize(self._source, self._source.stream.end_utterance)

    def _resume(self) -> None:
        self._typing.resume()
        try:
            self._source.microphone = self._open_microphone()
        except MicrophoneError as error:
            self._switch.on = False
            self._warn(str(error))

    def _drain(self) -> None:
        """Closes the microphone and recognizes all captured audio."""
        if self._source.microphone:
            self._source.microphone.close()
            while self._read(self._source):
                pass
            self._source.microphone = None

    def _warn(self, text: str) -> None:
        self._recognize(self._source, lambda: self._source.stream.report_error(text))

    def _show_event(self, event: Event, label: str) -> None:
        super()._show_event(event, label)
        self._typing.show(event)
