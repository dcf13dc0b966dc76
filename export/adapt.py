"""`asr adapt`: a model for one voice, from a few minutes of recordings with their texts.

The result is the mean of the fine-tuned weights and the original weights (Wortsman et al. 2022, "Robust fine-tuning of
zero-shot models"): it keeps most of the gain and stays accurate for other voices.
Every fourth recording is held out. These recordings decide when training stops and whether the new model is better.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lhotse import CutSet
from rich.console import Console

from asr._core import NgramLm
from asr.config import TokenizerConfig
from asr.data.cuts import load_cuts
from asr.data.manifests import read_table
from asr.data.prepare import prepare
from asr.data.utterance import PrepareOptions
from asr.evaluation.engine import open_engine
from asr.evaluation.evaluate import MAX_BATCH_S, evaluate
from asr.evaluation.wer import WordErrors
from asr.export.cli import stated_language
from asr.export.graph import output_path
from asr.export.write import export_model
from asr.lm.packed import load_lm
from asr.recipe import load_config
from asr.runtime.search import LmWeights
from asr.tables import RECORDED, print_left_out
from asr.training.average import average
from asr.training.checkpoint import load_pretrained
from asr.training.inputs import load_phones, normalizer_of
from asr.training.pretrained import Pretrained
from asr.training.train import Trainer
from asr.training.validate import VALIDATION_CHUNKS, validate

HELD_OUT = 4
"""Every HELD_OUT-th recording is held out of the training."""
MIN_SECONDS = 60.0
"""Minimum duration of the training recordings."""
SHARE = 0.5
"""Weight of the fine-tuned model in the mean with the original model."""
WORTH = 0.03
"""Minimum relative reduction of errors for which the new model is recommended."""


def split(cuts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Splits recordings into training and held-out ones. Raises ValueError if there are too few."""
    own = [cut for number, cut in enumerate(cuts, 1) if number % HELD_OUT]
    seconds = sum(cut.duration for cut in own)
    if seconds < MIN_SECONDS or len(cuts) < HELD_OUT:
        raise ValueError(
            f"{len(cuts)} recordings leave {seconds:.0f} s of training audio after holding out every {HELD_OUT}th; at "
            f"least {HELD_OUT} recordings and {MIN_SECONDS:g} s are needed: `asr record` reads five minutes of prompts "
            "with you"
        )
    return own, [cut for number, cut in enumerate(cuts, 1) if not number % HELD_OUT]


def learn(start: str, own: Path, held_out: Path, folder: Path, console: Console, overrides: Sequence[str] = ()) -> bool:
    """Trains on the data set `own` (of `asr prepare`) and keeps the weights with the fewest errors on `held_out`.

    start: see `load_pretrained`. folder: an empty folder for the run. overrides: changes of the recipe.
    Returns False if Ctrl-C ended the training.
    """
    data = [f"data.train={json.dumps([str(own)])}", f"data.valid={json.dumps([str(held_out)])}"]
    config = load_config("adapt", [*data, f"train.init={start}", f"train.output={folder}", *overrides])
    weights = load_pretrained(start)
    units = TokenizerConfig(weights.tokenizer.kind, weights.config.tokenizer.vocab_size)
    trainer = Trainer(replace(config, model=weights.config.model, tokenizer=units), False, console)
    trainer.stopping = "stopping after this step; no model is written"
    return trainer.run()


def mixture(start: str, learned: Path, share: float = SHARE) -> Pretrained:
    """Averages the best weights of the run `learned`, with weight `share` in (0, 1], and the weights `start`."""
    return average([(str(learned), share), (start, 1 - share)] if share < 1 else [(str(learned), share)])


def phone_errors(pretrained: Pretrained, cuts: Sequence[Any]) -> WordErrors:
    """Phone errors at 640 ms with greedy search; word errors if the model has no phones."""
    texts = [cut.supervisions[0].text for cut in cuts]
    phones = load_phones("bundled", texts, pretrained.phones) if pretrained.phones else None
    errors = validate(pretrained.model(), pretrained.tokenizer, cuts, MAX_BATCH_S, torch.device("cpu"), phones)
    return errors[VALIDATION_CHUNKS[1][0]]


def word_errors(weights: str, cuts: Sequence[Any], lm: NgramLm) -> WordErrors:
    """Word errors at 640 ms after the first pass, with the n-grams of `lm`."""
    engine = open_engine(weights)
    fusion = LmWeights(*engine.lm_weights).fusion(lm, engine.tokens, phones=engine.phones)
    return evaluate(engine, cuts, "", [640], 2560, ["beam+lm"], fusion=fusion)[0].errors


def adapt(args: argparse.Namespace) -> int:
    """Writes the model that `args` of `asr adapt` name, and prints its errors and those of the old one."""
    output_path(args.output)  # check before the training, not after it
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
            result = prepare(read_table(table), folder, "recordings", options)
        except ValueError as error:  # it names a file in `folder`, which is removed
            raise ValueError(str(error).split("; see ")[0]) from error
        print_left_out(console, result.refusals)
        sets = split(list(CutSet.from_jsonl_lazy(result.manifest)))  # the paths of features are relative to the folder
        own, held_out = (folder / f"{name}.jsonl.gz" for name in ("own", "held_out"))
        for path, cuts in zip((own, held_out), sets, strict=True):
            CutSet.from_cuts(cuts).to_file(path)
        if not learn(args.init, own, held_out, folder / "run", console):
            return 130
        adapted = mixture(args.init, folder / "run")
        adapted.save(folder / "adapted.safetensors")
        cuts = list(load_cuts(held_out))
        console.print(f"comparing both models on {len(cuts)} held-out recordings ...")
        phones = [phone_errors(weights, cuts).rate for weights in (start, adapted)]
        words = [word_errors(str(path), cuts, lm).rate for path in (args.init, folder / "adapted.safetensors")]
    console.print(f"writing {args.output} ...", markup=False)
    export_model(adapted, args.output, int8=True, language=language)
    unit = "phone" if start.phones else "word"
    console.print(
        f"{len(cuts)} held-out recordings: {_change(unit, phones)}, {_change('word', words)}\n"
        + (
            f"{args.output}: better for this voice; asr-stream --model {args.output} --lm {args.lm}"
            if phones[1] <= (1 - WORTH) * phones[0]
            else f"{args.output}: not better than {args.init}; keep {args.init}, or record more"
        ),
        markup=False,
        soft_wrap=True,
    )
    return 0


def _change(unit: str, rates: Sequence[float]) -> str:
    before, after = rates
    return f"{unit} errors {100 * before:.1f} % -> {100 * after:.1f} %"
