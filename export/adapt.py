"""`asr adapt`: a model for one voice, from a few minutes of recordings with their texts.

The result is the mean of the fine-tuned weights and the original weights (Wortsman et al. 2022, "Robust fine-tuning of
zero-shot models"): it keeps most of the gain and stays accurate for other voices.
Some recordings are held out: one in eight decides when training stops, and two in eight, which neither trained nor
stopped it, whether the new model is better.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console

from asr._core import NgramLm
from asr.config import TokenizerConfig
from asr.data.manifests import read_table
from asr.data.prepare import prepare
from asr.data.speech import Clip, Speech, write_subset
from asr.data.utterance import PrepareOptions
from asr.evaluation.engine import open_engine
from asr.evaluation.evaluate import MAX_BATCH_S, evaluate
from asr.evaluation.wer import WordErrors, chance_of, count_errors
from asr.export.cli import stated_language
from asr.export.graph import output_path
from asr.export.write import export_model
from asr.lm.packed import load_lm
from asr.recipe import load_config
from asr.runtime.search import LmWeights
from asr.tables import RECORDED, UTTERANCES, print_left_out
from asr.training.average import average
from asr.training.checkpoint import load_pretrained
from asr.training.exported import kept_settings
from asr.training.inputs import load_phones, normalizer_of
from asr.training.pretrained import Pretrained
from asr.training.train import Trainer
from asr.training.validate import VALIDATION_CHUNKS, validate

HELD_OUT = 4
"""Every HELD_OUT-th recording compares both models, and half as many decide when training stops."""
MIN_SECONDS = 60.0
"""Minimum duration of the training recordings."""
SHARE = 0.5
"""Weight of the fine-tuned model in the mean with the original model."""
MAX_CHANCE = 0.05
"""Probability of a difference by chance, above which none of the models is called better."""


def split(recordings: Sequence[Clip]) -> tuple[list[int], list[int], list[int]]:
    """The numbers of the recordings that train, that stop the training, and that compare the models.

    Raises ValueError if there are too few.
    """
    own, stopping, judges = list[int](), list[int](), list[int]()
    for number in range(len(recordings)):
        part = judges if number % HELD_OUT == HELD_OUT - 1 else stopping if number % (2 * HELD_OUT) == 0 else own
        part.append(number)
    seconds = sum(recordings[number].seconds for number in own)
    if seconds < MIN_SECONDS or len(recordings) < HELD_OUT:
        raise ValueError(
            f"{len(recordings)} recordings leave {seconds:.0f} s of training audio, because three of eight are held "
            f"out; at least {HELD_OUT} recordings and {MIN_SECONDS:g} s are needed: `asr record` reads five "
            "minutes of prompts with you"
        )
    return own, stopping, judges


def learn(start: str, own: Path, stopping: Path, folder: Path, console: Console, overrides: Sequence[str] = ()) -> bool:
    """Trains on the data set `own` (of `asr prepare`) and keeps the weights with the fewest errors on `stopping`.

    start: see `load_pretrained`. folder: an empty folder for the run. overrides: changes of the recipe.
    Returns False if Ctrl-C ended the training.
    """
    data = [f"data.train={json.dumps([str(own)])}", f"data.valid={json.dumps([str(stopping)])}"]
    config = load_config("adapt", [*data, f"train.init={start}", f"train.output={folder}", *overrides])
    weights = load_pretrained(start)
    units = TokenizerConfig(weights.tokenizer.kind, weights.config.tokenizer.vocab_size)
    trainer = Trainer(replace(config, model=weights.config.model, tokenizer=units), False, console)
    trainer.stopping = "stopping after this step; no model is written"
    return trainer.run()


def mixture(start: str, learned: Path, share: float = SHARE) -> Pretrained:
    """Averages the best weights of the run `learned`, with weight `share` in (0, 1], and the weights `start`."""
    return average([(str(learned), share), (start, 1 - share)] if share < 1 else [(str(learned), share)])


def phone_errors(pretrained: Pretrained, clips: Sequence[Clip]) -> WordErrors:
    """Phone errors at 640 ms with greedy search; word errors if the model has no phones."""
    texts = [clip.text for clip in clips]
    phones = load_phones("bundled", texts, pretrained.phones) if pretrained.phones else None
    errors = validate(pretrained.model(), pretrained.tokenizer, clips, MAX_BATCH_S, torch.device("cpu"), phones)
    return errors[VALIDATION_CHUNKS[1][0]]


def word_errors(weights: str, clips: Sequence[Clip], lm: NgramLm) -> list[WordErrors]:
    """Word errors of each recording at 640 ms after the first pass, with the n-grams of `lm`."""
    engine = open_engine(weights)
    fusion = LmWeights(*engine.lm_weights).fusion(lm, engine.tokens, phones=engine.phones)
    (result,) = evaluate(engine, clips, "", [640], 2560, ["beam+lm"], fusion=fusion)
    found = {id: count_errors([reference], [hypothesis]) for id, reference, hypothesis in result.hypotheses}
    return [found[clip.id] for clip in clips]


def verdict(before: Sequence[WordErrors], after: Sequence[WordErrors]) -> tuple[bool, str]:
    """Whether a model is better, and a clause about it. before, after: the word errors of each recording of the old and
    of the new model."""
    fewer = [old.num_errors - new.num_errors for old, new in zip(before, after, strict=True)]
    if chance_of(fewer) <= MAX_CHANCE:
        return True, "better for this voice"
    if chance_of([-each for each in fewer]) <= MAX_CHANCE:
        return False, "worse for this voice"
    num_words = sum(each.num_words for each in before)
    return False, f"{num_words} held-out words are too few to tell whether it is better for this voice"


def adapt(args: argparse.Namespace) -> int:
    """Writes the model that `args` of `asr adapt` name, and prints its errors and those of the old one."""
    output_path(args.output, args.init)  # check before the training, not after it
    language = stated_language(args.language, args.init)
    console = Console()
    table = args.recordings / RECORDED if args.recordings.is_dir() else args.recordings
    start = load_pretrained(args.init)
    lm = load_lm(args.lm)
    LmWeights().fusion(lm, start.tokenizer.tokens, phones=start.phones)  # raises ValueError if they do not fit
    with TemporaryDirectory(prefix="asr-adapt-") as name:
        folder = Path(name)
        options = PrepareOptions(replace(normalizer_of(start.tokenizer), noise_tags=args.noise_tags))
        try:
            result = prepare(list(read_table(table)), folder, "recordings", options)
        except ValueError as error:  # it names a file in `folder`, which is removed
            raise ValueError(str(error).split("; see ")[0]) from error
        print_left_out(console, result.refusals)
        sets = split(Speech.load(result.folder))
        files = [result.folder / f"{name}.tsv" for name in ("own", "stopping", "judges")]
        for path, numbers in zip(files, sets, strict=True):
            write_subset(result.folder / UTTERANCES, numbers, path)
        own, stopping, judges = files
        if not learn(args.init, own, stopping, folder / "run", console):
            return 130
        adapted = mixture(args.init, folder / "run")
        adapted.save(folder / "adapted.safetensors")
        clips = Speech.load(judges)
        console.print(f"comparing both models on {len(clips)} held-out recordings ...")
        phones = [phone_errors(weights, clips) for weights in (start, adapted)]
        words = [word_errors(str(path), clips, lm) for path in (args.init, folder / "adapted.safetensors")]
    console.print(f"writing {args.output} ...", markup=False)
    export_model(adapted, args.output, int8=True, language=language, kept=kept_settings(args.init))
    unit = "phone" if start.phones else "word"
    is_better, clause = verdict(*words)
    console.print(
        f"{len(clips)} held-out recordings: {_change(unit, phones)}, "
        f"{_change('word', [sum(each, WordErrors()) for each in words])}\n{args.output}: {clause}; "
        + (
            f"asr-stream --model {args.output} --lm {args.lm}"
            if is_better
            else f"keep {args.init}, or record more and adapt again"
        ),
        markup=False,
        soft_wrap=True,
    )
    return 0


def _change(unit: str, errors: Sequence[WordErrors]) -> str:
    before, after = errors
    return f"{unit} errors {100 * before.rate:.1f} % -> {100 * after.rate:.1f} %"
