"""The command line of `asr-stream`, with checks for contradictory options."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import asr
from asr.channels import parse_channel
from asr.command import Parser
from asr.options import flag
from asr.streaming.audio.open_file import STDIN
from asr.streaming.terminal.formats import FORMATS, format_of, is_folder, is_taken, output_path, parse_formats
from asr.streaming.terminal.layout import SUBTITLES, add_layout_options, layout_of
from asr.streaming.terminal.options import add_recognition_options
from asr.streaming.terminal.typing_tools import TOOLS
from asr.streaming.timestamps import parse_duration, parse_time

USAGE = """asr-stream [options] [FILE ...]
       asr-stream serve [options]
       asr-stream toggle"""
EPILOG = """\
examples:
  asr-stream                               the microphone; Ctrl-C ends
  asr-stream --list-devices                lists the microphones
  asr-stream --device 3 --chunk-ms 320     another microphone, lower latency
  asr-stream --output notes.txt --append   captions, also written to a file
  asr-stream --system-audio                what the computer plays
  asr-stream --system-audio --microphone --output meeting.srt
                                           both, each cue labeled: me, others
  asr-stream --type                        dictation into the focused window
  asr-stream toggle                        pauses dictation, or goes on
  asr-stream talk.mp3 notes.m4a            files, on all cores
  asr-stream talk.flac --output talk.srt   subtitles
  asr-stream talk.mp4 --output talk.ass --line-length 20 --max-words 4
                                           short ones, word by word
  asr-stream talk.mp3 --format srt,vtt,json --output texts/
                                           several formats
  asr-stream talk.mp3 --start 1:02:00 --duration 90
                                           a part of a recording
  asr-stream call.wav --channel each       two speakers on two channels
  asr-stream *.mp3 --format json --output texts/
                                           events for programs, in a file each
  ffmpeg -v error -nostdin -i https://... -af aresample=async=1:first_pts=0 \\
    -f wav - | asr-stream -                audio that another program downloads
  arecord -q -f S16_LE -r 16000 -t raw | asr-stream - --raw-rate 16000
                                           live audio of another program
  asr-stream --sample                      the bundled recording
  asr-stream serve                         a server for programs and browsers

M4A, MP4 and WebM need ffmpeg. See also asr-stream serve --help and
asr-stream toggle --help.

exit status:
  0     success; also after Ctrl-C with a microphone, or if the output pipe was
        closed
  1     a model, a file or the microphone cannot be used (other files are still
        read), or the output cannot be written
  2     the command line is wrong
  130   Ctrl-C while reading a file (143 after SIGTERM); the text so far is
        printed
"""


def new_parser() -> Parser:
    """The parser of all options."""
    parser = Parser(
        prog="asr-stream",
        description="Live captions from the microphone; transcripts of files.",
        usage=USAGE,
        epilog=EPILOG,
    )
    sources = parser.add_argument_group("source")
    sources.add_argument(
        "files", nargs="*", metavar="FILE", help="recognize files instead of the microphone; - is standard input"
    )
    source = sources.add_mutually_exclusive_group()
    source.add_argument("--device", metavar="ID", help="microphone: a number or part of a name from --list-devices")
    sources.add_argument(
        "--channel",
        metavar="N",
        help="channel to recognize; of files also mix, or each: every channel by itself, with its name (default: 1 of "
        "a microphone, mix of a file)",
    )
    source.add_argument("-f", "--file", nargs="+", metavar="FILE", help="the same as FILE without --file")
    source.add_argument(
        "--sample",
        action="store_true",
        help="recognize the bundled recording; in real time on a terminal",
    )
    source.add_argument("--list-devices", action="store_true", help="list microphones and exit")
    sources.add_argument(
        "--system-audio", action="store_true", help="caption what the computer plays on its default output"
    )
    sources.add_argument(
        "--microphone",
        action="store_true",
        help="with --system-audio: caption the microphone, too; texts are labeled me and others",
    )
    sources.add_argument(
        "--keep-echo",
        action="store_true",
        help="with --microphone: also caption what the microphone hears from the loudspeaker (default: leave out words "
        "that were played)",
    )
    dictation = parser.add_argument_group("dictation")
    dictation.add_argument(
        "--type",
        nargs="?",
        const="auto",
        choices=("auto", *TOOLS),
        metavar="TOOL",
        help="type words into the focused window once they are stable; turns off the second pass; TOOL: "
        + ", ".join(TOOLS)
        + "; default: the first that works; spoken commands are on",
    )
    dictation.add_argument(
        "--paused", action="store_true", help="start with the microphone closed; asr-stream toggle opens it"
    )
    files = parser.add_argument_group("files")
    files.add_argument("--realtime", action="store_true", help="read files at the speed of playback, one after another")
    files.add_argument(
        "--raw-rate",
        type=int,
        metavar="HZ",
        help="the files are raw samples at this rate: 16 bits, little-endian, mono",
    )
    files.add_argument(
        "--start",
        metavar="TIME",
        help="begin here in each file: seconds or [HH:]MM:SS, as in 90, 1:30 or 1:02:03.5; times in the output remain "
        "those of the whole file",
    )
    files.add_argument("--duration", metavar="TIME", help="recognize this much of each file: seconds or [HH:]MM:SS")
    files.add_argument("-j", "--jobs", type=int, metavar="N", help="files to read in parallel (default: one per core)")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format",
        metavar="FORMAT[,FORMAT...]",
        help=f"{', '.join(FORMATS)}; several need a folder as --output; default: by the suffix of --output, else text; "
        "json: one event per line",
    )
    output.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="also write the text to this file as it arrives (without a terminal: only to it); a folder (DIR/) gets a "
        "file for each recording and format",
    )
    add_layout_options(output)
    existing = output.add_mutually_exclusive_group()
    existing.add_argument(
        "--overwrite",
        dest="existing",
        action="store_const",
        const="overwrite",
        default="keep",
        help="replace an output file that exists (default: refuse)",
    )
    existing.add_argument(
        "--append",
        dest="existing",
        action="store_const",
        const="append",
        help="append to an output file that exists (text and json only)",
    )
    output.add_argument("--stats", action="store_true", help="print latency and CPU usage")
    add_recognition_options(parser)
    parser.add_argument("--version", action="version", version=f"asr-stream {asr.__version__}")
    return parser


def parse(parser: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the options. Exits if they are wrong or contradictory."""
    options = list(sys.argv[1:] if argv is None else argv)
    files = []
    if "--" in options:  # everything after it is a file, which parse_intermixed_args does not know
        at = options.index("--")
        options, files = options[:at], options[at + 1 :]
    args = parser.parse_intermixed_args(options)
    args.files += files
    _add_files(parser, args)
    try:
        args.format = (format_of(args.output),) if args.format is None else parse_formats(args.format)
    except ValueError as error:
        parser.error(f"--format {error}")
    try:
        args.layout = layout_of(args, args.format)
    except ValueError as error:
        parser.error(str(error))
    paths = args.file or []
    _check_sources(parser, args)
    if args.jobs is not None and args.jobs < 1:
        parser.error(f"--jobs is {args.jobs}; it must be at least 1")
    if args.raw_rate is not None:
        _check_raw_rate(parser, args.raw_rate, paths)
    if paths.count(STDIN) > 1:
        parser.error("standard input, -, can be read only once")
    if args.output is not None:
        try:
            _check_output(parser, args, paths)
        except OSError as error:  # such as a name that is too long
            parser.error(f"cannot write {args.output}: {error.strerror}")
    elif args.existing != "keep":
        parser.error(f"--{args.existing} is for an output file: give --output as well")
    if not is_folder(args.output):
        folder = "in a folder: --output texts/"
        if len(args.format) > 1:
            parser.error(f"{len(args.format)} formats need a file each, {folder}")
        if len(paths) > 1 and args.format[0] in SUBTITLES:
            parser.error(f"subtitles of several files need a file each, {folder}")
    return args


def _add_files(parser: Parser, args: argparse.Namespace) -> None:
    """Adds positional files to those of `--file`."""
    if not args.files:
        return
    for option in ("device", "sample", "list_devices"):
        if getattr(args, option):
            parser.error(f"{args.files[0]} is a source, and so is {flag(option)}: give one of the two")
    first = Path(args.files[0])
    if len(first.parts) == 1 and not first.suffix and args.files[0] != STDIN and not os.path.exists(first):
        parser.error(f"{args.files[0]} is neither a command (serve, toggle) nor a file")
    args.file = [*args.files, *(args.file or [])]


def _check_sources(parser: Parser, args: argparse.Namespace) -> None:
    """Sets options that follow from other options."""
    sources = {"the files": args.file, "--sample": args.sample, "--list-devices": args.list_devices}
    not_live = next((option for option, given in sources.items() if given), "")
    if args.channel is not None:
        try:
            args.channel = parse_channel(args.channel)
        except ValueError as error:
            parser.error(f"--channel {error}")
        if not not_live and not isinstance(args.channel, int):
            parser.error(f"--channel {args.channel} is for files; of a microphone give the number of one channel")
    for name in ("realtime", "jobs", "start", "duration"):
        if getattr(args, name) not in (None, False) and not (args.file or args.sample):
            parser.error(f"{flag(name)} is for files: give a FILE as well, or leave it out")
    for name, parse_value, default in (("start", parse_time, 0.0), ("duration", parse_duration, math.inf)):
        try:
            value = getattr(args, name)
            setattr(args, name, default if value is None else parse_value(value))
        except ValueError as error:
            parser.error(f"{flag(name)} {error}")
    if args.realtime and args.jobs is not None and args.jobs > 1:
        parser.error(f"--jobs is {args.jobs}, but --realtime reads one file after another: leave out one of the two")
    if args.system_audio and not_live:
        parser.error(f"--system-audio is a source, and so is {not_live}: give one of the two")
    if args.microphone and not args.system_audio:
        parser.error(
            "--microphone captions the microphone in addition to --system-audio; without --system-audio, leave it out"
        )
    names_microphone = args.device is not None or args.channel is not None
    args.microphone = args.microphone or (args.system_audio and names_microphone)
    if args.keep_echo and not args.microphone:
        parser.error("--keep-echo is for the microphone beside the system audio: give --system-audio --microphone")
    if args.type is None and args.paused:
        parser.error("--paused is for dictation: give --type as well")
    if args.type is not None:
        if not_live or args.system_audio:
            parser.error(f"--type types the words of the microphone: leave out {not_live or '--system-audio'}")
        if args.second_pass:
            parser.error("--second-pass corrects words after --type has typed them: leave out one of the two")
        args.second_pass = False
        args.commands = args.commands is not False


def _check_raw_rate(parser: Parser, rate: int, paths: Sequence[str]) -> None:
    from asr.streaming.resampler import check_sample_rate

    if not paths:
        parser.error("--raw-rate is for files: give --file as well")
    try:
        check_sample_rate(rate)
    except ValueError as error:
        parser.error(f"--raw-rate: {error}")


def _check_output(parser: Parser, args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Checks that two recordings do not share an output file, and that no file is overwritten without an option."""
    output, in_folder = args.output, is_folder(args.output)
    has_subtitles = not set(SUBTITLES).isdisjoint(args.format)
    if args.existing == "append" and has_subtitles:
        parser.error("--append: subtitles cannot be continued, since their times begin at 0")
    recordings: dict[Path, str] = {}
    for name in paths or ["sample.wav" if args.sample else "microphone"]:
        for target in [output_path(output, name, each) for each in args.format] if in_folder else [Path(output)]:
            if in_folder and target in recordings:
                parser.error(f"{recordings[target]} and {name} would both be written to {target}")
            recordings[target] = name
            if name in paths and os.path.exists(target) and _is_source(name, target):
                parser.error(f"--output would overwrite the recording {'of standard input' if name == STDIN else name}")
    for target in recordings:
        if args.existing == "keep" and is_taken(target):
            ways = "--overwrite" if has_subtitles else "--append or --overwrite"
            parser.error(f"{target} exists already: add {ways}, or choose another --output")


def _is_source(path: str, target: Path) -> bool:
    """Whether the recording is the file `target`."""
    try:
        source = os.fstat(0) if path == STDIN else os.stat(path)
    except OSError:
        return False
    return os.path.samestat(source, target.stat())
