"""Telephone copies: the bandwidth and codecs of a line, speech at the same position, reproducible."""

import numpy as np
import pytest
from support.corpora import utterances
from support.synth import SAMPLE_RATE, speech

from asr.data.copies import NoisyCopies, TelephoneCopies
from asr.data.cuts import load_cuts
from asr.data.prepare import prepare
from asr.data.transforms import CODECS, NoisyRoom, Telephone
from asr.data.utterance import PrepareOptions
from asr.features import fbank


def level_db(samples, low_hz, high_hz):
    """Mean power of the spectrum between two frequencies."""
    power = np.square(np.abs(np.fft.rfft(samples)))
    frequency = np.fft.rfftfreq(len(samples), 1 / SAMPLE_RATE)
    return 10 * np.log10(power[(frequency > low_hz) & (frequency < high_hz)].mean())


@pytest.mark.parametrize("codec", CODECS)
def test_a_line_passes_its_band_and_delays_nothing(codec):
    hiss = 0.05 * np.random.default_rng(0).standard_normal(50001).astype(np.float32)
    (decoded,) = Telephone(codec, -20.0)(hiss[None], SAMPLE_RATE)
    assert decoded.shape == hiss.shape and decoded.dtype == np.float32
    passed = level_db(decoded, 400, 3300)
    assert passed > level_db(decoded, 0, 150) + 10 and passed > level_db(decoded, 3900, 8000) + 25
    assert 10 * np.log10(np.mean(decoded**2)) == pytest.approx(-20, abs=1.5)
    correlation = np.fft.irfft(np.conj(np.fft.rfft(hiss)) * np.fft.rfft(decoded))
    assert np.abs(correlation).argmax() == 0


def test_codings_differ_in_their_noise():
    samples = speech("the quick brown fox jumps over the lazy dog")[None]
    decoded = [Telephone(codec, -20.0)(samples, SAMPLE_RATE)[0] for codec in CODECS]
    similarity = [np.corrcoef(decoded[0], other)[0, 1] for other in decoded[1:]]
    assert 0.99 < similarity[0] < 1 and 0.6 < similarity[1] < 0.99


def test_copies_play_back_what_the_features_are(tmp_path):
    items = utterances(tmp_path, 2)
    options = PrepareOptions(noisy_copies=NoisyCopies(1), telephone_copies=TelephoneCopies(2))
    cuts = list(load_cuts(prepare(items, tmp_path / "data", "set", options).manifest))
    names = ["", "_noisy1", "_telephone1", "_telephone2"]
    assert [cut.id for cut in cuts] == [f"u{i}{name}" for i in range(2) for name in names]
    for cut in cuts:
        assert cut.supervisions[0].text == cuts[0].supervisions[0].text or not cut.id.startswith("u0")
        assert np.abs(cut.load_features() - fbank(cut.load_audio()[0]).numpy()).max() < 0.02
    room, line = cuts[2].recording.transforms
    assert isinstance(room, NoisyRoom) and isinstance(line, Telephone)
    assert line != cuts[3].recording.transforms[1]
    again = load_cuts(prepare(items, tmp_path / "again", "set", options).manifest)
    assert [cut.recording.transforms for cut in again] == [cut.recording.transforms for cut in cuts]


def test_without_noise_a_copy_has_the_line_only(tmp_path):
    options = PrepareOptions(telephone_copies=TelephoneCopies(1))
    _, copy = load_cuts(prepare(utterances(tmp_path, 1), tmp_path / "data", "set", options).manifest)
    (line,) = copy.recording.transforms
    assert isinstance(line, Telephone)


def test_a_share_of_the_utterances_is_copied():
    names = [f"{i:05d}" for i in range(2000)]
    copied = [id for name in names for id, _ in TelephoneCopies(0.2).draw(name)]
    assert len(copied) / len(names) == pytest.approx(0.2, abs=0.03)
    assert copied == [id for name in names for id, _ in TelephoneCopies(0.2).draw(name)]
    codecs = [line.codec for name in names for _, line in TelephoneCopies(1).draw(name)]
    assert len(codecs) == len(names) and all(codecs.count(codec) > 500 for codec in CODECS)


@pytest.mark.parametrize("count", [0, -1, 1.5, 101, float("nan")])
def test_a_number_that_means_nothing_is_refused(count):
    with pytest.raises(ValueError, match=r"telephone copies; expected a share in \(0, 1\) or a whole number"):
        TelephoneCopies(count)
