"""`asr align`: the times of the words of a known text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from asr.command import counted
from asr.files import replacing, require_folder
from asr.streaming.alignment.files import FORMATS
from asr.streaming.terminal.options import add_recognition_options
from asr.text import printable

DESCRIPTION = """\
Find when each word of a known text is said in its recording: a chapter and its
audio book, a talk and its script. The recording may be hours long. The text
need not be exact: words that are not said, and words that are not in the text,
are marked. A blank line separates paragraphs.
"""
EXAMPLES = """\
examples:
  asr align chapter.mp3 chapter.txt -o chapter.json
  asr align talk.mp4 talk.txt -o talk.srt talk.vtt
                                           subtitles with the words of the text
  asr align speech.wav speech.txt -o speech.TextGrid
                                           words and phones for Praat
  asr align talk.flac talk.txt             start, end and word on each line

Suffixes: .json (all), .srt, .vtt, .TextGrid, .ctm, .txt.
"""
STDIN = "-"
NUM_NAMED = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `asr align` on `parser`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("recording", metavar="RECORDING", help="audio or video")
    parser.add_argument("transcript", metavar="TEXT", help="what is said, in UTF-8; - for standard input")
    parser.add_argument(
        "-o", "--output", nargs="+", type=Path, default=[], metavar="FILE", help="the suffix gives the format"
    )
    add_recognition_options(parser)


def run(args: argparse.Namespace) -> int:
    """`asr align` with parsed arguments; returns the exit status. Raises ValueError and OSError."""
    from asr.streaming.alignment.aligner import align
    from asr.streaming.audio.audio_file import duration_s
    from asr.streaming.terminal.options import new_recognizer

    formats = [FORMATS.get(path.suffix[1:].lower()) for path in args.output]
    for path, format in zip(args.output, formats, strict=True):
        if format is None:
            raise ValueError(f"{path}: the suffix must be one of {', '.join(f'.{name}' for name in FORMATS)}")
        require_folder(path, args.recording, args.transcript)
    text = _read(args.transcript)
    recognizer = new_recognizer(args)
    with _Bar(duration_s(args.recording)) as bar:
        alignment = align(args.recording, text, recognizer, progress=bar.show)
    for path, format in zip(args.output, formats, strict=True):
        assert format is not None
        with replacing(path) as part:
            # The name of the recording may not be UTF-8.
            part.write_text(format(alignment, args.recording), encoding="utf-8", errors="backslashreplace")
    if not args.output:
        print(FORMATS["txt"](alignment, args.recording), end="")
    missing = [word.text for word in alignment.missing()]
    extra = [word.word for word in alignment.extra]
    print(
        f"{counted(len(alignment.words) - len(missing), 'word')} of {len(alignment.words)} aligned"
        f"{_some('not said', missing)}{_some('said but not in the text', extra)}",
        file=sys.stderr,
    )
    if len(missing) == len(alignment.words):
        raise ValueError(f"{args.recording} has none of the words of {args.transcript}: is it the right text?")
    return 0


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == STDIN else Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as UTF-8 text: {error}") from error


def _some(what: str, words: list[str]) -> str:
    if not words:
        return ""
    more = " ..." if len(words) > NUM_NAMED else ""
    return f"; {len(words)} {what}: {printable(' '.join(words[:NUM_NAMED]))}{more}"


class _Bar:
    """Progress through a recording of `total_s` seconds, in a terminal. A context manager."""

    def __init__(self, total_s: float) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._bar = Progress(console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("listening", total=total_s or None)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def show(self, audio_s: float) -> None:
        self._bar.update(self._task, completed=audio_s)
