"""Compares asr-stream with ESPnet: a streaming Transformer of each, trained from scratch for the same CPU time.

    python benchmarks/vs_espnet.py --train data/train.jsonl.gz --valid data/dev.jsonl.gz --minutes 20

ESPnet's is the contextual block Transformer (Tsunoo et al. 2019) of its streaming recipes, with their CTC and attention
losses, SpecAugment, dropout and global normalization, and with blocks of half their size, so that a frame waits as long
as with chunks of 640 ms. Both have about the same number of parameters, and the same batches, characters, optimizer,
learning rates (to zero at the end of the time) and averaging of weights. Character errors are those of greedy CTC with
chunks of 640 ms; after half of the time the learning rate is still high. Each runs in its own process with one thread.
Only the CPU time of training is counted, so that other programs hardly disturb it. It needs: pip install espnet
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from ablations import character_error_rate
from torch import Tensor, nn

from asr.config import Config
from asr.data.batches import Batch, BatchSampler, Position, SpeechDataset, batches, load_training_cuts
from asr.data.cuts import batches_by_length, evenly_spread, iterate_cuts
from asr.model.decoder import IGNORE_ID
from asr.model.masks import draw_chunk
from asr.model.model import AsrModel, with_vocab
from asr.recipe import load_config
from asr.runtime.search import decode
from asr.tokenizer import BLANK_ID, SOS_EOS_ID, Tokenizer
from asr.training.inputs import estimate_cmvn, train_tokenizer
from asr.training.optim import WeightAverage, build_optimizer, learning_rate

SYSTEMS = ("asr-stream", "espnet")
SETTINGS = (
    *("model.dim=144", "model.encoder_layers=6", "model.encoder_ff_dim=576", "model.condition_layers=[3]"),
    *("model.decoder_layers=1", "model.decoder_ff_dim=576", "data.max_batch_s=40", "data.max_utterance_s=15"),
    *("data.num_workers=0", "optim.lr=2e-3", "optim.warmup_steps=200", "optim.ema_decay=0.99"),
)
"""The size of the ablations, over the recipe `tiny`."""
CHUNK, LEFT_CONTEXT = 16, 64
BLOCK, HOP, LOOK_AHEAD = 20, 8, 8
"""Encoder frames of ESPnet's blocks, half of its recipes'. A frame waits for up to 8 frames of its block and 8 more."""
ESPNET_FF_DIM = 448
"""Makes the number of parameters similar: its subsampling has more."""


class Ours:
    """This project's network and losses."""

    def __init__(self, config: Config, tokenizer: Tokenizer, mean: Tensor, std: Tensor) -> None:
        self.config = config
        self.network = AsrModel(with_vocab(config.model, tokenizer.vocab_size))
        self.network.encoder.set_cmvn(mean, std)
        self.augment = config.augment

    def loss(self, batch: Batch, step: int) -> Tensor:
        chunks = [draw_chunk(self.config.chunk, f"{self.config.train.seed} {step} 0")]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.train.precision == "bf16"):
            return self.network.losses(*batch[:4], self.config.loss, chunks).total

    def log_probs(self, features: Tensor, num_frames: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, _, lengths = self.network(features, num_frames, CHUNK, LEFT_CONTEXT)
        return log_probs, lengths


class Espnet:
    """ESPnet's network, losses, SpecAugment and normalization, by its Python interface."""

    augment = None  # the network has its own

    def __init__(self, config: Config, tokenizer: Tokenizer, mean: Tensor, std: Tensor) -> None:
        import numpy as np
        from espnet2.asr.ctc import CTC
        from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
        from espnet2.asr.encoder.contextual_block_transformer_encoder import ContextualBlockTransformerEncoder
        from espnet2.asr.espnet_model import ESPnetASRModel
        from espnet2.asr.specaug.specaug import SpecAug
        from espnet2.layers.global_mvn import GlobalMVN

        size, self.precision = config.model, config.train.precision
        with tempfile.TemporaryDirectory() as folder:
            stats = Path(folder) / "stats.npz"
            np.savez(stats, count=1, sum=mean.numpy(), sum_square=(std.square() + mean.square()).numpy())
            normalize = GlobalMVN(stats)
        vocab_size = tokenizer.vocab_size
        encoder = ContextualBlockTransformerEncoder(
            len(mean),
            output_size=size.dim,
            attention_heads=size.num_heads,
            linear_units=ESPNET_FF_DIM,
            num_blocks=size.encoder_layers,
            input_layer="conv2d",
            block_size=BLOCK,
            hop_size=HOP,
            look_ahead=LOOK_AHEAD,
        )
        decoder = TransformerDecoder(
            vocab_size, size.dim, size.num_heads, ESPNET_FF_DIM, size.decoder_layers, input_layer="embed"
        )
        self.network = ESPnetASRModel(
            vocab_size,
            list(tokenizer.tokens),
            frontend=None,
            specaug=SpecAug(
                time_warp_window=5, freq_mask_width_range=(0, 30), num_freq_mask=2, time_mask_width_range=(0, 40)
            ),
            normalize=normalize,
            preencoder=None,
            encoder=encoder,
            postencoder=None,
            decoder=decoder,
            ctc=CTC(vocab_size, size.dim),
            joint_network=None,
            ctc_weight=0.3,
            ignore_id=IGNORE_ID,
            lsm_weight=0.1,
            report_cer=False,
            report_wer=False,
            sym_blank=tokenizer.tokens[BLANK_ID],
            sym_sos=tokenizer.tokens[SOS_EOS_ID],
            sym_eos=tokenizer.tokens[SOS_EOS_ID],
        ).float()  # NumPy computes the statistics in float64

    def loss(self, batch: Batch, step: int) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            loss: Tensor = self.network(batch.features, batch.num_frames, batch.targets, batch.target_lengths)[0]
        return loss

    def log_probs(self, features: Tensor, num_frames: Tensor) -> tuple[Tensor, Tensor]:
        encoded, lengths = self.network.encode(features, num_frames)
        return self.network.ctc.log_softmax(encoded), lengths


def all_batches(config: Config, tokenizer: Tokenizer, parts: Any, augment: Any) -> Iterator[Batch]:
    """Batches of all epochs, with this project's augmentation if it is given."""
    dataset = SpeechDataset(tokenizer, augment)
    for epoch in itertools.count():
        yield from batches(BatchSampler(parts, config.data, config.train.seed, Position(epoch)), dataset, 0)


def train(system: Ours | Espnet, config: Config, data: Iterator[Batch], budget_s: float) -> Iterator[dict[str, Any]]:
    """Trains for `budget_s` of CPU time. Yields the time spent, with the averaged weights, at half time and at the end;
    time between yields does not count."""
    network, optim = system.network, config.optim
    optimizer = build_optimizer(network, optim)
    average = WeightAverage(network, optim.ema_decay)
    marks = [0.5, 1.0]
    audio_s = spent_s = 0.0
    started = time.process_time()
    for step in itertools.count(1):
        network.train()
        batch = next(data)
        system.loss(batch, step).backward()
        nn.utils.clip_grad_norm_(network.parameters(), optim.max_grad_norm)
        share = min(max(spent_s / budget_s, 1e-3), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(optim, step, round(step / share))
        optimizer.step()
        optimizer.zero_grad()
        average.update(network)
        audio_s += batch.seconds
        spent_s = time.process_time() - started
        if step % 50 == 0:
            print(f"step {step}, {spent_s:.0f} s of CPU time, {audio_s / 3600:.2f} h", file=sys.stderr, flush=True)
        if spent_s >= marks[0] * budget_s:
            measured = {"cpu_s": spent_s, "steps": step, "audio_h": audio_s / 3600}
            yield {"share": marks.pop(0), **measured, "weights": average.weights}
            if not marks:
                return
            started = time.process_time() - spent_s


@torch.no_grad()
def errors(system: Ours | Espnet, weights: dict[str, Tensor], tokenizer: Tokenizer, cuts: Sequence[Any]) -> float:
    """Character error rate of greedy CTC in chunks of 640 ms. The network has its own weights again afterwards."""
    own = {name: value.clone() for name, value in system.network.state_dict().items()}
    system.network.load_state_dict(weights)
    system.network.eval()
    texts = []
    for batch in batches_by_length(cuts, 60.0):
        features = [torch.from_numpy(cut.load_features()) for cut in batch]
        padded = nn.utils.rnn.pad_sequence(features, batch_first=True)
        log_probs, lengths = system.log_probs(padded, torch.tensor([len(x) for x in features]))
        for cut, row, length in zip(batch, log_probs.float().numpy(), lengths.tolist(), strict=True):
            found = tokenizer.decode(decode(row[:length], "greedy").tokens)
            texts.append((cut.supervisions[0].text, found))
    system.network.load_state_dict(own)
    return character_error_rate(texts)


def run_one(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains and measures one system in this process."""
    torch.set_num_threads(1)
    config = load_config("tiny", [*SETTINGS, f"data.train={json.dumps(args.train)}", *args.set])
    parts, _ = load_training_cuts(config.data)
    tokenizer = train_tokenizer(config.tokenizer, (cut.supervisions[0].text for cuts, _ in parts for cut in cuts))
    torch.manual_seed(config.train.seed)
    statistics = estimate_cmvn(parts, config.train.seed)
    torch.manual_seed(config.train.seed)
    system = (Ours if name == SYSTEMS[0] else Espnet)(config, tokenizer, *statistics)
    cuts = evenly_spread(list(iterate_cuts(args.valid)), args.num_utterances)
    data = all_batches(config, tokenizer, parts, system.augment)
    size = sum(p.numel() for p in system.network.parameters())
    rows = []
    for mark in train(system, config, data, 60 * args.minutes):
        rate = errors(system, mark.pop("weights"), tokenizer, cuts)
        rows.append({"system": name, "parameters": size, **mark, "cer": rate})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def check_espnet() -> None:
    """Raises ValueError if ESPnet cannot be imported."""
    try:
        import espnet2  # noqa: F401
    except ImportError as error:
        raise ValueError(f"ESPnet cannot be imported ({error}): pip install espnet") from error


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| | parameters | CPU time | steps | audio | character errors at 640 ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [row["system"], f"{row['parameters'] / 1e6:.2f} M", f"{row['cpu_s'] / 60:.1f} min", str(row["steps"])]
        lines.append(f"| {' | '.join(cells)} | {row['audio_h']:.2f} h | {100 * row['cer']:.1f} % |")
    return "\n".join(lines)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True, metavar="DATA", help="to train on, as data.train")
    parser.add_argument("--valid", required=True, metavar="DATA", help="to measure on")
    parser.add_argument("--num-utterances", type=int, default=150, metavar="N", help="of --valid (default: 150)")
    parser.add_argument("--minutes", type=float, default=20.0, help="of CPU time for each (default: %(default)s)")
    parser.add_argument("--set", nargs="+", default=[], metavar="key=value", help="further settings of both")
    parser.add_argument("--only", choices=SYSTEMS, help="one system, in this process")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="2: both at a time (default: 1)")
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of a table")
    args = parser.parse_args(argv)
    if not args.minutes > 0:
        parser.error(f"--minutes {args.minutes} must be above 0")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    try:
        if args.only != SYSTEMS[0]:
            check_espnet()
        if args.only:
            rows = run_one(args.only, args)
        else:
            rows = run_both(sys.argv[1:] if argv is None else list(argv), args.jobs)
    except (ValueError, OSError) as error:
        print(f"vs_espnet: {error}", file=sys.stderr)
        return 1
    print(json.dumps(rows) if args.json else table(rows))
    return 0


def run_both(arguments: Sequence[str], jobs: int) -> list[dict[str, Any]]:
    """Runs each system in a separate process."""
    rows: list[dict[str, Any]] = []
    for names in [SYSTEMS] if jobs == 2 else [(name,) for name in SYSTEMS]:
        commands = [[sys.executable, __file__, *arguments, "--json", "--only", name] for name in names]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        try:
            for name, process in zip(names, processes, strict=True):
                output = process.communicate()[0]
                if process.returncode:
                    raise ValueError(f"{name} ended with status {process.returncode}")
                rows += json.loads(output.splitlines()[-1])  # ESPnet prints other lines before it
        finally:
            for process in processes:
                process.kill()
    return rows


if __name__ == "__main__":
    sys.exit(main())
