"""`asr prepare`: checks recordings and transcripts, computes features, writes a data set to train on.

Every utterance is decoded completely once, so broken audio does not reach training. The result is `<name>.jsonl.gz`, a
lhotse CutSet with features attached (see `asr.data.cuts`), and `<name>.refused.tsv`.
The features get a new file name, and the manifest is renamed last: an interrupted run leaves either the former data set
or none.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import multiprocessing
import os
import secrets
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from asr.command import add_noise_tags, how_to_install, interrupts_ignored
from asr.cores import num_cores
from asr.data.audio import find_sounds
from asr.data.manifests import Utterance, find_librispeech_parts, normalized, read_librispeech, read_table
from asr.data.report import PrepareResult, Summary, print_report
from asr.data.utterance import Prepared, PrepareOptions, prepare_utterance
from asr.features import FRAME_SHIFT_S, NUM_MEL_BINS, SAMPLE_RATE
from asr.files import naming
from asr.options import flag
from asr.tables import Refusal, write_tsv
from asr.text import CASES, OUTSIDE_POLICIES, TextNormalizer

if TYPE_CHECKING:
    from asr.data.copies import NoisyCopies, TelephoneCopies
    from asr.data.noise_alone import NoisePiece

Item: TypeAlias = "Utterance | NoisePiece | Refusal"

_BATCH = 16  # items a worker takes at a time

S = TypeVar("S")
T = TypeVar("T")


def prepare(
    utterances: Iterable[Item],
    out_dir: str | Path,
    name: str,
    options: PrepareOptions | None = None,
    on_progress: Callable[[], object] | None = None,
) -> PrepareResult:
    """Writes the data set `out_dir/name.jsonl.gz` and the list `out_dir/name.refused.tsv`.

    on_progress: called once for every finished utterance.
    The order of the data set is that of `utterances`, regardless of the number of jobs.
    Raises ValueError for a bad name, or if no utterance is usable; then only the list is written.
    Raises ChildProcessError if a worker dies.
    """
    from lhotse import CutSet
    from lhotse.features import Features

    from asr.data.cuts import MANIFEST_SUFFIX, Float16Writer

    options = options or PrepareOptions()
    if not name or name != Path(name).name or name.startswith("."):
        raise ValueError(f"name is {name!r}; expected a plain file name such as train-clean-100")
    folder = Path(out_dir)
    features_dir = folder / f"{name}.features"
    features_dir.mkdir(parents=True, exist_ok=True)
    result = PrepareResult(folder / f"{name}{MANIFEST_SUFFIX}", Summary())
    # Features get a new name: the previous manifest, if any, stays valid until the new one replaces it.
    stem = secrets.token_hex(4)
    features_file = features_dir / f"{stem}.f16"
    unfinished = features_dir / f"{stem}{MANIFEST_SUFFIX}"
    usable = normalized(utterances, options.normalizer, result.add_text)
    items = in_processes(partial(_prepare_item, options=options), usable, options.num_jobs)
    try:
        with (
            naming(features_dir),
            CutSet.open_writer(unfinished) as manifest,
            Float16Writer(features_file) as storage,
            contextlib.closing(items),
        ):
            for item in items:
                for one in item:
                    if isinstance(one, Refusal):
                        result.refusals.append(one)
                        continue
                    cut = one.cut
                    cut.features = Features(
                        type="asr_log_mel",
                        num_frames=len(one.frames),
                        num_features=NUM_MEL_BINS,
                        frame_shift=FRAME_SHIFT_S,
                        sampling_rate=SAMPLE_RATE,
                        start=0.0,
                        duration=cut.duration,
                        storage_type=storage.name,
                        storage_path=f"{features_dir.name}/{features_file.name}",
                        storage_key=storage.write(cut.id, one.frames),
                        recording_id=cut.recording.id,
                        channels=0,
                    )
                    manifest.write(cut)
                    result.summary.add(cut.duration, cut.supervisions[0].text, cut.supervisions[0].speaker)
                if on_progress is not None:
                    on_progress()
        columns = ("id", "audio", "reason", "detail")
        rows = ((r.id, r.audio, r.reason, r.detail) for r in result.refusals)
        write_tsv(folder / f"{name}.refused.tsv", columns, rows)
        if result.summary.num_utterances == 0:
            reasons = Counter(r.reason for r in result.refusals).most_common(3)
            why = ", ".join(f"{count} x {reason}" for reason, count in reasons) or "there is none"
            hint = options.normalizer.suggestion(result.outside)
            raise ValueError(f"no usable utterance for {name}: {why}; see {folder / name}.refused.tsv{hint}")
        os.replace(unfinished, result.manifest)
    finally:
        if unfinished.exists():  # still there, so it is incomplete
            features_file.unlink(missing_ok=True)
            unfinished.unlink()
            with contextlib.suppress(OSError):  # the folder may contain a previous data set
                features_dir.rmdir()
    for former in features_dir.iterdir():
        if former != features_file:
            with contextlib.suppress(OSError):  # on Windows, a training run may still have it open
                former.unlink()
    return result


def _prepare_item(item: Item, options: PrepareOptions) -> list[Prepared | Refusal]:
    if isinstance(item, Utterance):
        return prepare_utterance(item, options)
    return [item if isinstance(item, Refusal) else item.prepare()]


def _start_worker() -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems where the setting is not inherited
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker would wait for its next task forever if its parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def worker_pool(num_jobs: int) -> ProcessPoolExecutor:
    """Processes with one thread each, which ignore Ctrl-C and leave it to this process, and end with it."""
    # PyTorch's thread pools do not survive a fork.
    pool = ProcessPoolExecutor(num_jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    with interrupts_ignored():  # inherited, so that a worker that is still importing prints no traceback
        for _ in range(num_jobs):
            pool.submit(os.getpid)
    return pool


def in_processes(function: Callable[[S], T], items: Iterable[S], num_jobs: int) -> Generator[T]:
    """The results of `function`, in order; a limited number of items is in progress at any time."""
    if num_jobs == 1:
        yield from map(function, items)
        return
    items, pending = iter(items), deque[Future[list[T]]]()
    pool = worker_pool(num_jobs)
    try:
        while True:
            while len(pending) <= 4 * num_jobs and (batch := list(islice(items, _BATCH))):
                pending.append(pool.submit(_each, function, batch))
            if not pending:
                return
            yield from pending.popleft().result()
    except BrokenProcessPool as error:
        raise ChildProcessError("a worker process died, perhaps out of memory; use fewer --jobs") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _each(function: Callable[[S], T], batch: Sequence[S]) -> list[T]:
    return [function(item) for item in batch]


_CASES = {
    "upper": "write the text in upper case (default)",
    "lower": "write the text in lower case",
    "keep": "keep the case of the text: the model has to learn it",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `asr prepare`'s arguments on `parser`."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the data sets")
    common.add_argument("--rir", type=Path, metavar="DIR", help="room impulse responses (default: simulated rooms)")
    common.add_argument(
        "--jobs", type=int, default=min(8, num_cores()), metavar="N", help="processes (default: %(default)s)"
    )
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
    shared.add_argument(
        "--speeds",
        default="1.0",
        metavar="FACTORS",
        help="speed-perturbed copies, for training data only, e.g. 0.9,1.0,1.1 (default: 1.0)",
    )
    shared.add_argument(
        "--noisy-copies",
        type=int,
        metavar="N",
        help="number of additional copies of each, in a random room and with noise, for training data only "
        "(default: 1 with --noise, --rir, --snr-db or --margins, else 0)",
    )
    shared.add_argument("--noise", type=Path, metavar="DIR", help="recordings of noise (default: colored noise)")
    shared.add_argument(
        "--snr-db", metavar="LOW,HIGH", help="signal-to-noise ratios of the noisy copies (default: 5,25)"
    )
    shared.add_argument(
        "--margins",
        metavar="LOW,HIGH",
        help="seconds of noise alone before and after the words of a noisy copy, e.g. 0.3,2: teaches the model "
        "to write nothing when nobody speaks (default: none)",
    )
    shared.add_argument(
        "--telephone",
        type=float,
        metavar="N",
        help="number of additional copies of each through a telephone line (300 to 3400 Hz at 8 kHz, G.711 or GSM); "
        "below 1: share of utterances with a copy, e.g. 0.2. With noisy copies these also have a room and noise "
        "(default: none)",
    )
    shared.add_argument("--min-duration", type=float, default=0.1, metavar="S", help="default: 0.1 s")
    shared.add_argument("--max-duration", type=float, default=40.0, metavar="S", help="default: 40 s")
    case = shared.add_mutually_exclusive_group()
    for choice in CASES:
        flag = "--keep-case" if choice == "keep" else f"--{choice}"
        case.add_argument(flag, dest="case", action="store_const", const=choice, default="upper", help=_CASES[choice])
    shared.add_argument(
        "--alphabet",
        metavar="CHARS",
        help="characters of the text in the chosen case, e.g. A-ZÄÖÜ' (default: A-Z and apostrophe); punctuation "
        "is kept if it is among them; any: all, including digits. See docs/guides/languages.md",
    )
    shared.add_argument(
        "--outside",
        choices=OUTSIDE_POLICIES,
        default="punctuation",
        help="characters outside the alphabet: drop punctuation and refuse utterances with others such as digits "
        "(punctuation, the default), refuse utterances with any (refuse), drop all (strip)",
    )
    add_noise_tags(shared)
    kinds = parser.add_subparsers(dest="kind", required=True)
    librispeech = kinds.add_parser("librispeech", parents=[shared], help="the LibriSpeech folder tree")
    librispeech.add_argument("corpus", type=Path, metavar="DIR", help="LibriSpeech, or its parent folder")
    librispeech.add_argument("--parts", nargs="+", metavar="PART", help="e.g. train-clean-100 (default: all)")
    librispeech.add_argument("--name", help="a single data set of this name (default: one per part)")
    table = kinds.add_parser("manifest", parents=[shared], help="a TSV, CSV or JSONL of path and text")
    table.add_argument("table", type=Path, metavar="FILE", help="columns found by name: path, text, speaker")
    table.add_argument("--audio-root", type=Path, metavar="DIR", help="base folder of relative paths")
    table.add_argument("--name", help="name of the data set (default: the file's)")
    noise = kinds.add_parser(
        "noise",
        parents=[common],
        help="recordings without speech",
        description="Pieces of recordings without speech, at random levels, every second one in a\n"
        "room, every second one mixed with another recording or colored noise. Training\n"
        "on them in addition to speech teaches the model to write nothing when there\nare no words.",
        epilog="example:\n  asr prepare noise kitchen_and_street --hours 1 --out data --name noise_alone",
    )
    noise.add_argument("folder", type=Path, metavar="DIR", help="recordings of noise, music, anything but speech")
    noise.add_argument("--hours", type=float, default=1.0, metavar="H", help="total duration (default: %(default)s)")
    noise.add_argument("--lengths", default="2,12", metavar="LOW,HIGH", help="seconds per piece (default: %(default)s)")
    noise.add_argument("--name", help="name of the data set (default: the folder's); another name gives other pieces")


def run(args: argparse.Namespace) -> int:
    """`asr prepare` with parsed arguments; returns the exit status (130 after Ctrl-C).

    Raises ValueError for arguments and inputs that do not give a data set.
    """
    from rich.console import Console
    from rich.progress import Progress

    missing = [name for name in ("lhotse", "torchaudio") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} not installed; {how_to_install('train')}")
    console = Console()
    options = PrepareOptions(num_jobs=args.jobs) if args.kind == "noise" else _options(args)
    sets: dict[str, list[Item]] = {}
    try:
        if args.kind == "noise":
            name = args.name or args.folder.resolve().name
            sets[name] = list(_pieces(args, name))
        elif args.kind == "manifest":
            sets[args.name or args.table.stem] = list(read_table(args.table, args.audio_root))
        else:
            for part in find_librispeech_parts(args.corpus, args.parts):
                sets.setdefault(args.name or part.name, []).extend(read_librispeech(part))
        for name, utterances in sets.items():
            with Progress(console=console, transient=True) as progress:
                task = progress.add_task(name, total=len(utterances))
                result = prepare(utterances, args.out, name, options, partial(progress.advance, task))
            print_report(result, console, options.normalizer)
    except KeyboardInterrupt:
        console.print("interrupted: finished data sets are kept, the current one is not written")
        return 130
    return 0


def _options(args: argparse.Namespace) -> PrepareOptions:
    try:
        speeds = tuple(float(factor) for factor in args.speeds.split(","))
    except ValueError:
        raise ValueError(f"--speeds is {args.speeds!r}; expected factors such as 0.9,1.0,1.1") from None
    return PrepareOptions(
        normalizer=TextNormalizer(args.case, args.alphabet, args.outside, args.noise_tags),
        speeds=speeds,
        min_duration_s=args.min_duration,
        max_duration_s=args.max_duration,
        num_jobs=args.jobs,
        noisy_copies=_noisy_copies(args),
        telephone_copies=_telephone_copies(args),
    )


def _pieces(args: argparse.Namespace, name: str) -> Iterator[NoisePiece]:
    from asr.data.noise_alone import draw_pieces

    rooms = find_sounds(args.rir, "impulse response") if args.rir else ()
    lengths_s = _two_numbers("--lengths", args.lengths, "2,12")
    return draw_pieces(name, find_sounds(args.folder, "noise"), args.hours, lengths_s, rooms)


def _noisy_copies(args: argparse.Namespace) -> NoisyCopies | None:
    from asr.data.copies import NoisyCopies

    given = [flag(name) for name in ("noise", "rir", "snr_db", "margins") if getattr(args, name)]
    count = int(bool(given)) if args.noisy_copies is None else args.noisy_copies
    if count == 0:
        if given:
            raise ValueError(f"{given[0]} needs noisy copies; omit --noisy-copies 0")
        return None
    snr_db = _two_numbers("--snr-db", args.snr_db or "5,25", "5,25")
    margins_s = _two_numbers("--margins", args.margins, "0.3,2") if args.margins else (0.0, 0.0)
    rooms = find_sounds(args.rir, "impulse response") if args.rir else ()
    noises = find_sounds(args.noise, "noise") if args.noise else ()
    return NoisyCopies(count, rooms, noises, snr_db, margins_s)


def _telephone_copies(args: argparse.Namespace) -> TelephoneCopies | None:
    from asr.data.copies import TelephoneCopies

    return TelephoneCopies(args.telephone) if args.telephone else None


def _two_numbers(option: str, text: str, example: str) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in text.split(","))
    except ValueError:
        raise ValueError(f"{option} is {text!r}; expected two numbers such as {example}") from None
    return low, high
