"""`asr transcribe`: transcribes every recording of a corpus and writes a manifest for training."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asr
from asr.channels import parse_channel
from asr.cores import num_cores
from asr.options import OPTIONS, flag
from asr.streaming.corpus.progress import Progress
from asr.streaming.corpus.recordings import find_recordings, longest_first, parse_shard
from asr.streaming.corpus.texts import Task, write_rows
from asr.streaming.corpus.workers import error_line, run_workers
from asr.streaming.terminal.layout import add_layout_options, layout_of, rows
from asr.streaming.terminal.options import ASSETS, add_recognition_options
from asr.tables import Recording, Refusal
from asr.text import printable

DESCRIPTION = """\
Transcribe every recording of a corpus. DIR gets a JSON Lines file for each,
with words, times and confidence, and manifest.jsonl for `asr prepare
manifest`. Existing transcripts are kept: run it again to continue after
Ctrl-C, a crash or a full disk. If a recording fails, the others continue; the
failures are listed at the end.
"""
EXAMPLES = """\
examples:
  asr transcribe podcasts/ --out texts
  asr transcribe recordings.tsv talks/ --out texts --srt
  asr transcribe data/dev --out texts --model model.onnx --lm bundled
  asr transcribe calls/ --out texts --channel each
                                           two speakers on two channels
  asr transcribe corpus/ --out texts --shard $SLURM_ARRAY_TASK_ID/16
                                           in a job array, 1 to 16
  asr transcribe corpus/ --out /shared/texts --ray auto
                                           on a Ray cluster
  asr prepare manifest texts/manifest.jsonl --out data
                                           to train on the transcripts

exit status: 0 all done, 1 some failed, 130 after Ctrl-C
"""
SETTINGS = "transcribe.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `asr transcribe` on `parser`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="MANIFEST|FOLDER",
        help="folders of recordings; tables (TSV, CSV, JSONL) with a column path; data sets of `asr prepare`",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the transcripts")
    parser.add_argument("--srt", action="store_true", help="also write subtitles, one file per recording")
    add_layout_options(parser, ("srt",))
    parser.add_argument("--audio-root", metavar="DIR", help="base folder of relative paths in tables")
    parser.add_argument(
        "--channel",
        default="mix",
        metavar="N",
        help="channel to recognize: a number from 1, each (every channel by itself, with its name) or mix (default)",
    )
    parser.add_argument("--shard", metavar="i/n", help="process only the i-th of n parts, i from 1 to n")
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        metavar="N",
        help="number of processes, each with one thread (default: one for each core)",
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="run on this Ray cluster: auto, local or ray://HOST:PORT (extra: ray)"
    )
    add_recognition_options(parser)


def run(args: argparse.Namespace) -> int:
    """`asr transcribe` with parsed arguments; returns the exit status.

    Raises ValueError for wrong arguments and inputs, OSError if DIR cannot be written.
    """
    if args.jobs is not None and args.jobs < 1:
        raise ValueError(f"--jobs is {args.jobs}; it must be at least 1")
    try:
        channel = parse_channel(args.channel)
    except ValueError as error:
        raise ValueError(f"--channel {error}") from error
    shard, num_shards = parse_shard(args.shard) if args.shard else (1, 1)
    found = find_recordings(args.inputs, args.audio_root)[shard - 1 :: num_shards]
    options = argparse.Namespace(**{name: getattr(args, name) for name in _option_names()})
    given = [flag(row.name) for row in rows(("srt",)) if getattr(args, row.name) is not None]
    if given and not args.srt:
        raise ValueError(f"{given[0]} is for subtitles: give --srt as well")
    task = Task(options, args.out.absolute(), layout_of(args, ("srt",)) if args.srt else None, channel)
    task.out.mkdir(parents=True, exist_ok=True)
    is_new = _check_settings(task)

    failed = [
        (each.audio or each.id, f"{each.reason} {each.detail}".strip()) for each in found if isinstance(each, Refusal)
    ]
    recordings = [each for each in found if isinstance(each, Recording)]
    clashes = {
        each.id: f"{task.out} has the text of {other} where that of this one belongs; choose another --out"
        for each in recordings
        if (other := task.other_of(each))
    }
    if clashes and len(clashes) == len(recordings):  # another folder of the same name
        raise ValueError(f"{recordings[0].audio}: {clashes[recordings[0].id]}")
    failed += [(str(each.audio), clashes[each.id]) for each in recordings if each.id in clashes]
    recordings = [each for each in recordings if each.id not in clashes]
    left = longest_first(each for each in recordings if not task.is_done(each))
    if args.ray:
        from asr.streaming.corpus.on_ray import run_on_ray

        outcomes = run_on_ray(task, left, args.ray, args.jobs)
    else:
        outcomes = run_workers(task, left, min(args.jobs or num_cores(), len(left)))
    warnings: list[str] = []
    try:
        with Progress(left) as progress, contextlib.closing(outcomes):
            for outcome in outcomes:
                progress.add(outcome.done.audio_s, bool(outcome.error))
                warnings += outcome.done.warnings
                if outcome.error:
                    failed.append((str(outcome.recording.audio), outcome.error))
    except ValueError:  # invalid options
        if is_new:
            (task.out / SETTINGS).unlink()
        raise
    if channel == "mix":
        manifest = [row for each in recordings if (row := task.row(each)) is not None]
        name = f"manifest.{shard}-of-{num_shards}.jsonl" if args.shard else "manifest.jsonl"
        try:
            write_rows(task.out / name, manifest)
        except OSError as error:
            failed.append((str(task.out / name), error_line(error)))
    else:
        warnings.append(f"no manifest for training, because that mixes the channels: --channel is {channel}")
    _report(len(recordings) - len(left), progress.summary(), warnings, failed)
    return int(bool(failed))


def _option_names() -> list[str]:
    parser = argparse.ArgumentParser()
    add_recognition_options(parser)
    return list(vars(parser.parse_args([])))


def _check_settings(task: Task) -> bool:
    """Raises ValueError if the folder has texts made with different settings. Returns whether it had none."""
    settings: dict[str, Any] = {"version": asr.__version__, "channel": task.channel}
    for name, value in vars(task.options).items():
        settings[name] = OPTIONS[name].default if name in OPTIONS and value is None else value
        if name in ASSETS and value and Path(value).is_file():
            settings[name] = f"{Path(value).name}, sha256 {hashlib.sha256(Path(value).read_bytes()).hexdigest()[:16]}"
    path = task.out / SETTINGS
    layout = {row.name: getattr(task.srt, row.name) for row in rows(("srt",))} if task.srt else {}
    try:
        former = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        write_rows(path, [settings | layout])
        return True
    for name, value in (settings | layout).items():
        if former.get(name) != value and (name in former or name not in layout):
            raise ValueError(
                f"{task.out} holds texts made with {_shown(name, former.get(name))}, now it is "
                f"{_shown(name, value)}: give the same options, or another --out"
            )
    if not layout.keys() <= former.keys():  # the first run with subtitles
        write_rows(path, [former | layout])
    return False


def _shown(name: str, value: Any) -> str:
    """An option in its command-line form."""
    if name == "version":
        return f"version {value}"
    if isinstance(value, bool):
        return flag(name) if value else flag(f"no_{name}")
    return f"{flag(name)} {value:g}" if isinstance(value, float) else f"{flag(name)} {value}"


def _report(num_there: int, summary: str, warnings: Sequence[str], failed: Sequence[tuple[str, str]]) -> None:
    if num_there:
        summary += f"; {num_there} transcribed earlier"
    print(summary, file=sys.stderr)
    for warning in warnings:
        print(printable(warning), file=sys.stderr)
    if failed:
        print(f"{len(failed)} failed; run the same command to try again:", file=sys.stderr)
    for path, error in failed:
        name, line = printable(path), printable(error)
        print(f"  {line if name in line else f'{name}: {line}'}", file=sys.stderr)
    sys.stderr.flush()
