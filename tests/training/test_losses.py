"""The losses of one batch, computed by hand from the network's outputs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from asr.config import LossConfig, ModelConfig
from asr.model.decoder import IGNORE_ID
from asr.model.denominator import Denominator
from asr.model.encoder import Encoder
from asr.model.model import AsrModel, consistency_loss
from asr.tokenizer import SOS_EOS_ID

TARGETS = [[3, 4, 4], [4]]
NUM_FRAMES = [27, 15]  # 6 and 3 encoder frames


@pytest.fixture(scope="module")
def model() -> AsrModel:
    torch.manual_seed(0)
    shape = ModelConfig(dim=16, num_heads=2, encoder_layers=3, encoder_ff_dim=32, decoder_ff_dim=32, vocab_size=5)
    shape = replace(shape, condition_layers=(1, 2))
    return AsrModel(shape).eval()


@pytest.fixture(scope="module")
def features() -> Tensor:
    torch.manual_seed(1)
    return 3 * torch.randn(2, NUM_FRAMES[0], 80)


def batch(features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    targets = torch.full((2, 3), IGNORE_ID)
    for row, tokens in enumerate(TARGETS):
        targets[row, : len(tokens)] = torch.tensor(tokens)
    return features, torch.tensor(NUM_FRAMES), targets, torch.tensor([len(tokens) for tokens in TARGETS])


def ctc_by_hand(log_probs: list[list[float]], tokens: list[int]) -> float:
    """-log of the summed probability of all paths that give these tokens after removing repeats and blanks."""
    total = 0.0
    for path in itertools.product(range(5), repeat=len(log_probs)):
        if [token for token, _ in itertools.groupby(path) if token != 0] == tokens:
            total += math.exp(sum(row[token] for row, token in zip(log_probs, path, strict=True)))
    return -math.log(total)


def cross_entropy_by_hand(logits: list[list[float]], tokens: list[int], smoothing: float) -> float:
    """Cross-entropy with the tokens and the end: `smoothing` of the target is spread evenly over the vocabulary."""
    total = 0.0
    for row, token in zip(logits, [*tokens, SOS_EOS_ID], strict=True):
        log_sum = math.log(sum(math.exp(value) for value in row))
        costs = [log_sum - value for value in row]
        total += (1 - smoothing) * costs[token] + smoothing * sum(costs) / len(costs)
    return total


@torch.no_grad()
@pytest.mark.parametrize(
    ("ctc_weight", "smoothing", "inner_share"), [(0.3, 0.0, 0.0), (0.3, 0.1, 0.0), (0.8, 0.1, 0.25), (0.0, 0.0, 0.0)]
)
def test_losses_of_a_batch(
    model: AsrModel, features: Tensor, ctc_weight: float, smoothing: float, inner_share: float
) -> None:
    config = LossConfig(ctc_weight=ctc_weight, label_smoothing=smoothing, intermediate_ctc_weight=inner_share)
    found = model.losses(*batch(features), config)
    ctc = attention = 0.0
    for row, tokens in enumerate(TARGETS):
        one = features[row : row + 1, : NUM_FRAMES[row]]
        encoder_out, lengths, inner = model.encoder(model.ctc, one, torch.tensor([NUM_FRAMES[row]]))
        outer_ctc = ctc_by_hand(model.ctc(encoder_out).log_softmax(-1)[0].tolist(), tokens)
        assert len(inner) == 2
        inner_ctc = sum(ctc_by_hand(x.log_softmax(-1)[0].tolist(), tokens) for x in inner) / len(inner)
        ctc += (1 - inner_share) * outer_ctc + inner_share * inner_ctc
        logits = model.decoder(torch.tensor([[SOS_EOS_ID, *tokens]]), encoder_out, lengths)
        attention += cross_entropy_by_hand(logits[0].tolist(), tokens, smoothing)
    num_tokens = sum(map(len, TARGETS))
    assert found.ctc.item() == pytest.approx(ctc / num_tokens, rel=1e-4)
    assert found.attention.item() == pytest.approx(attention / num_tokens, rel=1e-4)
    joint = ctc_weight * ctc + (1 - ctc_weight) * attention
    assert found.total.item() == pytest.approx(joint / num_tokens, rel=1e-4)
    assert found.consistency == found.phone_ctc == 0


@torch.no_grad()
@pytest.mark.parametrize("denominator_weight", [0.0, 0.9])
def test_loss_of_the_phone_head(model: AsrModel, features: Tensor, denominator_weight: float) -> None:
    """CTC of the phones and the weighted log of the sum over all sequences, added to the other losses."""
    torch.manual_seed(3)
    with_phones = AsrModel(replace(model.config, phones=("A", "B"))).eval()
    config = LossConfig(phone_weight=0.7, denominator_weight=denominator_weight)
    phones = torch.tensor([[3, 4, 4], [1, IGNORE_ID, IGNORE_ID]])
    denominator = Denominator([[3, 4, 4], [1]], 2)
    found = with_phones.losses(
        *batch(features), config, phones=phones, phone_lengths=torch.tensor([3, 1]), denominator=denominator
    )
    expected = 0.0
    for row, tokens in enumerate(([3, 4, 4], [1])):
        frames = torch.tensor([NUM_FRAMES[row]])
        encoder_out, lengths, _ = with_phones.encoder(with_phones.ctc, features[row : row + 1, :frames], frames)
        log_probs = with_phones.phone_log_probs(encoder_out)
        expected += ctc_by_hand(log_probs[0].tolist(), tokens)
        expected += denominator_weight * denominator(log_probs, lengths).item()
    num_tokens = sum(map(len, TARGETS))
    assert found.phone_ctc.item() == pytest.approx(expected / num_tokens, rel=1e-4)
    others = config.ctc_weight * found.ctc + (1 - config.ctc_weight) * found.attention
    assert found.total.item() == pytest.approx((0.3 * others + 0.7 * found.phone_ctc).item(), rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("with_words", [True, False])
def test_losses_of_noise_alone(model: AsrModel, features: Tensor, with_words: bool) -> None:
    """Blanks in every frame, and only the end from the decoder. Counts as one token, with other utterances or alone."""
    torch.manual_seed(3)
    with_phones = AsrModel(replace(model.config, phones=("A", "B"))).eval()
    config = LossConfig(intermediate_ctc_weight=0.25, label_smoothing=0.0, denominator_weight=0.9)
    denominator = Denominator([[3, 4, 4], [1]], 2)
    rows = [[3, 4], []] if with_words else [[], []]
    targets, lengths = torch.full((2, 2), IGNORE_ID), torch.tensor([len(tokens) for tokens in rows])
    targets[0, : len(rows[0])] = torch.tensor(rows[0])
    num_frames = torch.tensor(NUM_FRAMES)
    found = with_phones.losses(
        features, num_frames, targets, lengths, config, ((0, -1),), None, targets, lengths, denominator
    )
    expected = torch.zeros(3)
    for row, tokens in enumerate(rows):
        frames = num_frames[row : row + 1]
        encoder_out, out_lengths, inner = with_phones.encoder(
            with_phones.ctc, features[row : row + 1, : int(frames)], frames
        )
        heads = [(0.75, with_phones.ctc(encoder_out)), *((0.25 / len(inner), logits) for logits in inner)]
        expected[0] += sum(w * ctc_by_hand(x.log_softmax(-1)[0].tolist(), tokens) for w, x in heads)
        logits = with_phones.decoder(torch.tensor([[SOS_EOS_ID, *tokens]]), encoder_out, out_lengths)
        expected[1] += cross_entropy_by_hand(logits[0].tolist(), tokens, 0.0)
        log_probs = with_phones.phone_log_probs(encoder_out)
        expected[2] += ctc_by_hand(log_probs[0].tolist(), tokens) + 0.9 * denominator(log_probs, out_lengths).item()
    num_tokens = 3 if with_words else 2
    assert torch.stack((found.ctc, found.attention, found.phone_ctc)).tolist() == pytest.approx(
        (expected / num_tokens).tolist(), rel=1e-4
    )


def divergence(one: list[float], other: list[float]) -> float:
    """KL(one || other) of log-probabilities."""
    return sum(math.exp(p) * (p - q) for p, q in zip(one, other, strict=True))


def test_consistency_of_two_distributions() -> None:
    one, other = ([math.log(p) for p in values] for values in ((0.7, 0.2, 0.1), (0.3, 0.3, 0.4)))
    loss = consistency_loss(torch.tensor([[one, one], [other, one]]), torch.tensor([2, 2]))
    assert loss.item() == pytest.approx(divergence(one, other) + divergence(other, one), rel=1e-5)


def test_the_target_view_of_consistency_has_no_gradient() -> None:
    log_probs = torch.randn(2, 3, 4).log_softmax(-1).requires_grad_()
    consistency_loss(log_probs, torch.tensor([3, 3])).backward()
    torch.testing.assert_close(log_probs.grad, -log_probs.detach().flip(0).exp())


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_scheduled_sampling_replaces_a_share_of_the_history(
    model: AsrModel, features: Tensor, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    inputs = []

    def forward(tokens: Tensor, *memory: Tensor) -> Tensor:
        """Always guesses token 1."""
        inputs.append(tokens)
        return torch.eye(5)[torch.ones_like(tokens)]

    monkeypatch.setattr(model.decoder, "forward", forward)
    targets = torch.full((2, 300), 4)
    torch.manual_seed(0)
    config = LossConfig(scheduled_sampling=share)
    model.losses(features, torch.tensor(NUM_FRAMES), targets, torch.tensor([300, 300]), config)
    first, second = inputs
    assert (first[:, 0] == SOS_EOS_ID).all() and (first[:, 1:] == 4).all()
    assert (second[:, 0] == SOS_EOS_ID).all() and set(second[:, 1:].unique().tolist()) <= {1, 4}
    assert (second[:, 1:] == 1).float().mean().item() == pytest.approx(share, abs=0.06)


@torch.no_grad()
def test_consistency_weighs_as_much_as_ctc(model: AsrModel, features: Tensor) -> None:
    """CR-CTC is the mean of the views' CTC + weight * the mean of the two directions, per token of the transcript."""
    weight = 0.2
    config = LossConfig(ctc_weight=1.0, intermediate_ctc_weight=0.0, cr_ctc_weight=weight)
    views = [(features, (0, -1)), (features + 0.5, (2, 2))]
    both = [torch.cat(pair) for pair in zip(*(batch(view) for view, _ in views), strict=True)]
    found = model.losses(*both, config, [chunk for _, chunk in views])
    num_tokens = sum(map(len, TARGETS))
    ctc = consistency = 0.0
    for row, tokens in enumerate(TARGETS):
        outputs = []
        for view, chunk in views:
            log_probs, _, _ = model(view[row : row + 1, : NUM_FRAMES[row]], torch.tensor([NUM_FRAMES[row]]), *chunk)
            outputs.append(log_probs[0].tolist())
            ctc += ctc_by_hand(outputs[-1], tokens) / 2
        for one, other in zip(*outputs, strict=True):
            consistency += (divergence(one, other) + divergence(other, one)) / 2
    assert found.consistency.item() == pytest.approx(consistency / num_tokens, rel=1e-4)
    assert found.total.item() == pytest.approx((ctc + weight * consistency) / num_tokens, rel=1e-4)
    assert consistency > 0.05


@torch.no_grad()
def test_views_of_one_pass_are_those_alone(features: Tensor) -> None:
    """Each has its own chunks, in the mask and in the running mean."""
    torch.manual_seed(4)
    shape = ModelConfig(dim=16, num_heads=2, encoder_layers=2, encoder_ff_dim=32, vocab_size=5, running_mean=True)
    encoder, head = Encoder(shape).eval(), torch.nn.Linear(16, 5)
    assert encoder.speaker is not None
    for parameter in encoder.speaker.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    num_frames, chunks = torch.tensor(NUM_FRAMES), ((0, -1), (2, 2), (4, 0))
    together = encoder(head, torch.cat([features] * 3), num_frames.repeat(3), chunks)
    alone = [encoder(head, features, num_frames, (chunk,)) for chunk in chunks]
    for view, (x, _, (inner,)) in enumerate(alone):
        rows = slice(2 * view, 2 * view + 2)
        torch.testing.assert_close(together[0][rows], x)
        torch.testing.assert_close(together[2][0][rows], inner)
    assert all(not torch.allclose(one[0], other[0], atol=1e-2) for one, other in itertools.combinations(alone, 2))


@torch.no_grad()
def test_both_heads_are_to_be_consistent(model: AsrModel, features: Tensor) -> None:
    torch.manual_seed(3)
    with_phones = AsrModel(replace(model.config, phones=("A", "B"))).eval()
    both = [torch.cat(pair) for pair in zip(batch(features), batch(features + 0.5), strict=True)]
    phones, phone_lengths = torch.tensor([[3, 4], [1, 2]]).repeat(2, 1), torch.tensor([2, 2]).repeat(2)
    config = LossConfig(cr_ctc_weight=0.2)
    found = with_phones.losses(*both, config, [(0, -1)] * 2, phones=phones, phone_lengths=phone_lengths)
    log_probs, encoder_out, lengths = with_phones(*both[:2])
    heads = [consistency_loss(rows, lengths).item() for rows in (log_probs, with_phones.phone_log_probs(encoder_out))]
    assert min(heads) > 0.01
    assert found.consistency.item() == pytest.approx(sum(heads) / (2 * sum(map(len, TARGETS))), rel=1e-4)


@torch.no_grad()
def test_utterance_too_short_for_its_text_lacks_ctc(model: AsrModel, features: Tensor) -> None:
    targets, lengths = torch.tensor([[3, 4, 4], [4, 4, 4]]), torch.tensor([3, 3])
    num_frames = torch.tensor([NUM_FRAMES[0], 19])  # 4 encoder frames; three times the same token takes 5
    found = model.losses(features, num_frames, targets, lengths, LossConfig())
    alone = model.losses(features[:1], num_frames[:1], targets[:1], lengths[:1], LossConfig())
    assert found.ctc.item() == pytest.approx(alone.ctc.item() / 2, rel=1e-4)
