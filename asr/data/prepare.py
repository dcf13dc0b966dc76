"""`asr prepare`: checks recordings and transcripts, and writes a data set to train on.

Every utterance is decoded completely once, so broken audio does not reach training. The result is a folder (see
`asr.data.speech`) with `refused.tsv`, which lists what was left out. An interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
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
from asr.data.audio import MAX_NOISE_S, find_sounds
from asr.data.manifests import (
    Utterance,
    find_librispeech_parts,
    normalized,
    read_kaldi,
    read_lhotse,
    read_librispeech,
    read_table,
)
from asr.data.report import PrepareResult, Summary, print_report
from asr.data.speech import COLUMNS, samples_by_table, write_table
from asr.data.utterance import PrepareOptions, prepare_utterance
from asr.features import SAMPLE_RATE
from asr.files import naming
from asr.tables import UTTERANCES, Refusal, lines_of, one_line, write_tsv
from asr.text import CASES, OUTSIDE_POLICIES, TextNormalizer

if TYPE_CHECKING:
    import numpy as np

Item: TypeAlias = Utterance | Refusal

REFUSED = "refused.tsv"
_BATCH = 16  # items a worker takes at a time

S = TypeVar("S")
T = TypeVar("T")


def prepare(
    items: Sequence[Item],
    out_dir: str | Path,
    name: str,
    options: PrepareOptions | None = None,
    on_progress: Callable[[int], object] = lambda number: None,
) -> PrepareResult:
    """Writes the data set `out_dir/name` (see `asr.data.speech`) and its list `refused.tsv`.

    It continues after an interruption: the samples and a log of the finished utterances are kept in the folder.

    on_progress: called with the number of utterances that were finished since.
    The order of the data set is that of `items`, regardless of the number of jobs.
    Raises ValueError for a bad name, or if no utterance is usable; then only the list is written.
    Raises ChildProcessError if a worker dies.
    """
    options = options or PrepareOptions()
    if not name or name != Path(name).name or name.startswith("."):
        raise ValueError(f"name is {name!r}; expected a plain file name such as train-clean-100")
    folder = Path(out_dir) / name
    folder.mkdir(parents=True, exist_ok=True)
    result = PrepareResult(folder, Summary())
    usable = list(normalized(items, options.normalizer, result.add_text))
    with naming(folder), _Work(folder, _fingerprint(usable, options)) as work:
        on_progress(len(work.done))
        rest = usable[len(work.done) :]
        with contextlib.closing(in_processes(partial(_prepare_item, options=options), rest, options.num_jobs)) as made:
            for each in made:
                work.add(each)
                on_progress(1)
        _finish(work, usable, result, options)
    return result


def _finish(work: _Work, items: Sequence[Item], result: PrepareResult, options: PrepareOptions) -> None:
    """Writes the tables of a data set whose samples are complete."""
    rows: list[Sequence[str]] = []
    first = 0
    for item, done in zip(items, work.done, strict=True):
        if not isinstance(done, int):
            result.refusals.append(Refusal(*done))
            continue
        assert isinstance(item, Utterance)
        fields = (item.id, str(first), str(done), item.speaker or "", os.path.abspath(item.audio))
        rows.append((*fields, f"{round(item.start_s, 3):.12g}", item.text))
        result.summary.add(done / SAMPLE_RATE, item.text, item.speaker)
        first += done
    columns = ("id", "audio", "reason", "detail")
    write_tsv(result.folder / REFUSED, columns, ((r.id, r.audio, r.reason, r.detail) for r in result.refusals))
    if not rows:
        work.remove()
        reasons = Counter(r.reason for r in result.refusals).most_common(3)
        why = ", ".join(f"{count} x {reason}" for reason, count in reasons) or "there is none"
        hint = options.normalizer.suggestion(result.outside)
        raise ValueError(f"no usable utterance for {result.folder.name}: {why}; see {result.folder / REFUSED}{hint}")
    work.sync()
    write_table(result.folder / UTTERANCES, work.samples, rows)
    result.former_tables = work.finish()


def _prepare_item(item: Item, options: PrepareOptions) -> np.ndarray | Refusal:
    return item if isinstance(item, Refusal) else prepare_utterance(item, options)


def _fingerprint(items: Sequence[Item], options: PrepareOptions) -> str:
    """Tells whether unfinished work is from the same utterances and limits."""
    digest = hashlib.sha256(f"{options.min_duration_s} {options.max_duration_s}".encode())
    for item in items:
        digest.update(repr(item).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class _Work:
    """The samples and the log of a data set that is being written.

    done: for each finished item its number of samples, or the fields of its refusal. The samples of a new data set get
    a new file name: the former table stays valid until the new one replaces it.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._path = folder, folder / "unfinished.jsonl"
        self.done: list[int | list[str]] = []
        self.samples = self._resume(fingerprint)
        if not self.samples:
            self.samples = f"samples-{secrets.token_hex(4)}.s16"
            self._path.write_text(json.dumps([fingerprint, self.samples]) + "\n", encoding="utf-8")
        self._log = self._path.open("a", encoding="utf-8")
        self._file = (folder / self.samples).open("ab", buffering=0)  # before the log, which may be behind it
        self._file.truncate(2 * sum(each for each in self.done if isinstance(each, int)))

    def _resume(self, fingerprint: str) -> str:
        """The file of samples of unfinished work on the same utterances, or ""."""
        try:
            head, *lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
            found, samples = json.loads(head)
            size = (self._folder / samples).stat().st_size
        except (OSError, TypeError, ValueError):
            return ""
        if found != fingerprint:
            return ""
        kept = len(head.encode())
        for line in lines:
            each = json.loads(line) if line.endswith("\n") else None
            size -= 2 * each if isinstance(each, int) else 0
            if each is None or size < 0:
                break
            self.done.append(each)
            kept += len(line.encode())
        os.truncate(self._path, kept)
        return str(samples)

    def add(self, item: np.ndarray | Refusal) -> None:
        if isinstance(item, Refusal):
            entry: int | list[str] = [item.id, item.audio, item.reason, item.detail]
        else:
            view = memoryview(item.astype("<i2").tobytes())
            while view:  # an unbuffered write may be partial
                view = view[self._file.write(view) :]
            entry = len(item)
        self.done.append(entry)
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()

    def sync(self) -> None:
        """Flushes the samples to the disk: a table that is there after a loss of power must not precede them."""
        os.fsync(self._file.fileno())

    def finish(self) -> list[str]:
        """Removes the log, and the samples of a former data set unless another table names them; returns the names of
        such tables."""
        self._path.unlink()
        named = samples_by_table(self._folder)
        for former in self._folder.glob("samples-*.s16"):
            if former.name not in named.values():
                with contextlib.suppress(OSError):  # on Windows, a training run may still have it open
                    former.unlink()
        return [table for table, samples in named.items() if samples != self.samples]

    def remove(self) -> None:
        self._path.unlink()
        (self._folder / self.samples).unlink()

    def __enter__(self) -> _Work:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()
        self._file.close()


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
    common.add_argument("--name", help="name of the data set (default: that of the input)")
    common.add_argument(
        "--jobs", type=int, default=min(8, num_cores()), metavar="N", help="processes (default: %(default)s)"
    )
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
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
    librispeech.add_argument("input", type=Path, metavar="DIR", help="LibriSpeech, or its parent folder")
    librispeech.add_argument(
        "--parts", nargs="+", metavar="PART", help="e.g. train-clean-100 (default: all); one data set each, or --name"
    )
    table = kinds.add_parser("manifest", parents=[shared], help="a TSV, CSV or JSONL of path and text")
    table.add_argument("input", type=Path, metavar="FILE", help="columns found by name: path, text, speaker")
    table.add_argument("--audio-root", type=Path, metavar="DIR", help="base folder of relative paths")
    kaldi = kinds.add_parser("kaldi", parents=[shared], help="a Kaldi data directory: wav.scp, text, segments")
    kaldi.add_argument("input", type=Path, metavar="DIR")
    lhotse = kinds.add_parser("lhotse", parents=[shared], help="cuts by lhotse, .jsonl or .jsonl.gz")
    lhotse.add_argument("input", type=Path, metavar="FILE")
    noise = kinds.add_parser(
        "noise",
        parents=[common],
        help="recordings without speech",
        description="Recordings of noise, music, anything but speech, for data.noise: training mixes\n"
        "them with speech, and teaches the model to write nothing when there are no words.",
        epilog="example:\n  asr prepare noise kitchen_and_street --out data --name noise",
    )
    noise.add_argument("input", type=Path, metavar="DIR", help="a folder of recordings, of at most 10 minutes each")


def run(args: argparse.Namespace) -> int:
    """`asr prepare` with parsed arguments; returns the exit status (130 after Ctrl-C).

    Raises ValueError for arguments and inputs that do not give a data set.
    """
    from rich.console import Console
    from rich.progress import Progress

    if importlib.util.find_spec("torchaudio") is None:
        raise ValueError(f"torchaudio is not installed; {how_to_install('train')}")
    console = Console()
    options = _options(args)
    sets: dict[str, list[Item]] = {}
    if args.kind == "librispeech":
        for part in find_librispeech_parts(args.input, args.parts):
            sets.setdefault(args.name or part.name, []).extend(read_librispeech(part))
    else:
        name = args.input.resolve().name.removesuffix(".gz")
        sets[args.name or (name if args.input.is_dir() else Path(name).stem)] = list(_items(args))
    try:
        for name, items in sets.items():
            if not args.name:
                _require_own(args.out / name, items)
            with Progress(console=console, transient=True) as progress:
                task = progress.add_task(name, total=len(items))
                result = prepare(items, args.out, name, options, partial(progress.advance, task))
            print_report(result, console, options.normalizer)
    except KeyboardInterrupt:
        console.print("interrupted: the same command continues it; finished data sets are kept")
        return 130
    return 0


def _require_own(folder: Path, items: Iterable[Item]) -> None:
    """Raises ValueError if a data set of other recordings has the name that was made from that of the input."""
    table = folder / UTTERANCES
    wanted = {one_line(os.path.abspath(item.audio)) for item in items if isinstance(item, Utterance)}
    if not wanted or not table.is_file():
        return
    rows = [line.rstrip("\n").split("\t") for line in lines_of(table)][1:]
    former = {row[COLUMNS.index("audio")] for row in rows if len(row) == len(COLUMNS)}
    if not former & wanted and any(map(os.path.exists, former)):  # recordings may have moved
        raise ValueError(f"{folder} has a data set of other recordings, which would be replaced; choose another --name")


def _items(args: argparse.Namespace) -> Iterable[Item]:
    if args.kind == "noise":
        return noises(args.input)
    if args.kind == "manifest":
        return read_table(args.input, args.audio_root)
    return read_kaldi(args.input) if args.kind == "kaldi" else read_lhotse(args.input)


def noises(folder: Path) -> Iterator[Utterance]:
    """The recordings of a folder as utterances without words. Raises ValueError for one that cannot be used."""
    root = folder.absolute()
    for path in map(Path, find_sounds(folder, "noise")):
        yield Utterance(str(path.relative_to(root).with_suffix("")), path, "", is_noise=True)


def _options(args: argparse.Namespace) -> PrepareOptions:
    if args.kind == "noise":
        return PrepareOptions(max_duration_s=MAX_NOISE_S, num_jobs=args.jobs)
    normalizer = TextNormalizer(args.case, args.alphabet, args.outside, args.noise_tags)
    return PrepareOptions(normalizer, args.min_duration, args.max_duration, args.jobs)
