"""Noisy copies: the documented noise, no clipping, speech at the same position, reproducible."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.corpora import utterances
from support.synth import SAMPLE_RATE, hum, speech, write_audio

from asr.cli import main
from asr.data.audio import find_sounds
from asr.data.copies import NoisyCopies
from asr.data.cuts import load_cuts
from asr.data.manifests import Utterance
from asr.data.prepare import prepare
from asr.data.transforms import NoisyRoom, colored_noise, power, read_sound, reverberate, simulated_room
from asr.data.utterance import PrepareOptions
from asr.features import fbank


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """(room, noise): a delayed, decaying response whose loudest tap is a reflection; a hiss with a quiet half."""
    folder = tmp_path_factory.mktemp("sounds")
    rng = np.random.default_rng(1)
    response = np.zeros(4000, np.float32)
    response[300], response[900] = 0.4, -0.6
    response[1000:] = 0.05 * rng.standard_normal(3000) * np.exp(-np.arange(3000) / 800)
    hiss = 0.1 * rng.standard_normal(24000)
    hiss[12000:] *= 0.3
    return write_audio(folder / "room.flac", response), write_audio(folder / "noise.wav", hiss, 12000)


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("snr_db", [-5.0, 5.0, 20.0])
def test_noise_is_as_loud_as_promised(sounds, real, snr_db):
    samples = speech("the quick brown fox jumps over the lazy dog")[None]
    room, noise = map(str, sounds) if real else (None, None)
    noisy = NoisyRoom(3, snr_db, room, noise)(samples, SAMPLE_RATE)[0]
    clean = NoisyRoom(3, 200.0, room, noise)(samples, SAMPLE_RATE)[0]
    gain = np.dot(clean, noisy) / np.dot(clean, clean)  # the rest is noise
    achieved = 10 * np.log10(power(gain * clean) / power(noisy - gain * clean))
    assert achieved == pytest.approx(snr_db, abs=0.3)
    assert np.abs(noisy).max() <= 0.9901
    assert noisy.dtype == np.float32 and noisy.shape == samples.shape[1:]


@pytest.mark.parametrize("real", [True, False])
def test_margins_are_noise_alone_around_the_words(sounds, real):
    samples = speech("the quick brown fox jumps over the lazy dog")[None]
    room, noise = map(str, sounds) if real else (None, None)
    before, after = 24000, 8000
    noisy = NoisyRoom(3, 10.0, room, noise, 1.5, 0.5)(samples, SAMPLE_RATE)[0]
    clean = NoisyRoom(3, 200.0, room, noise, 1.5, 0.5)(samples, SAMPLE_RATE)[0]
    assert noisy.shape == (before + samples.shape[1] + after,)
    assert not np.abs(clean[: before - 100]).max() > 1e-3 * np.abs(clean).max(), "no word in the margin"
    gain = np.dot(clean, noisy) / np.dot(clean, clean)
    left = noisy - gain * clean
    for part in (left[:before], left[before:-after], left[-after:]):
        assert power(part) == pytest.approx(power(left), rel=0.9), "the noise goes on"
    spoken = clean[before : before + samples.shape[1]]
    assert 10 * np.log10(power(gain * spoken) / power(left)) == pytest.approx(10.0, abs=0.5)
    without = NoisyRoom(3, 200.0, room, noise)(samples, SAMPLE_RATE)[0]
    assert np.corrcoef(spoken, without)[0, 1] > 0.98, "the words are as they were"


def test_quiet_stretch_of_noise_is_not_amplified(tmp_path):
    hiss = 0.1 * np.random.default_rng(0).standard_normal(80000)
    hiss[:40000] *= 1e-3
    noise = write_audio(tmp_path / "half.wav", hiss)
    samples = hum(1.0)[None]
    snrs = []
    clean = reverberate(samples[0], np.ones(1, np.float32))
    response = write_audio(tmp_path / "none.wav", np.array([0.5] + 99 * [0.0]))
    for seed in range(12):
        added = NoisyRoom(seed, 10.0, str(response), str(noise))(samples, SAMPLE_RATE)[0] - clean
        snrs.append(10 * np.log10(power(clean) / power(added)))
    assert min(snrs) > 9.8, "never louder than drawn"
    assert min(snrs) < 10.2 and max(snrs) > 40, "and where the recording is all but silent, so is the copy"


def test_loud_speech_does_not_clip():
    samples = 2.2 * hum(2.0)[None]
    assert np.abs(samples).max() > 0.9
    noisy = NoisyRoom(1, 0.0)(samples, SAMPLE_RATE)
    assert np.abs(noisy).max() == pytest.approx(0.99, abs=1e-4)
    assert (np.abs(noisy) > 0.9899).sum() == 1, "scaled, not cut off"


def test_the_direct_sound_stays_where_it_was(sounds):
    click = np.zeros(8000, np.float32)
    click[2000] = 0.5
    for response in (read_sound(str(sounds[0])), *(simulated_room(np.random.default_rng(s)) for s in range(20))):
        wet = np.abs(reverberate(click, response))
        assert wet[:1990].max() < 0.3 * wet.max(), "nothing of weight before the click"
        assert wet[1997:2004].max() >= 0.25 * wet.max(), "the direct sound is there on time"
        assert power(wet) == pytest.approx(power(click), rel=1e-3)


def test_simulated_rooms_differ_and_ring():
    rooms = [simulated_room(np.random.default_rng(seed)) for seed in range(12)]
    assert len({len(room) for room in rooms}) > 6, "many reverberation times"
    assert np.array_equal(rooms[0], simulated_room(np.random.default_rng(0)))
    ratios = []
    for room in rooms:
        onset = int(np.argmax(np.abs(room) >= 0.25 * np.abs(room).max()))
        ratios.append(10 * np.log10(power(room[: onset + 40]) * (onset + 40) / np.sum(room[onset + 40 :] ** 2)))
    assert -8 < min(ratios) < -3 and 8 < max(ratios) < 14, "far and near"


def test_colored_noise_goes_from_white_to_brown():
    slopes = []
    for seed in range(20):
        noise = colored_noise(32000, np.random.default_rng(seed))
        assert power(noise) == pytest.approx(1.0, rel=1e-3)
        spectrum = np.square(np.abs(np.fft.rfft(noise)))
        low, high = spectrum[400:800].mean(), spectrum[8000:12000].mean()  # 200-400 Hz, 4-6 kHz
        slopes.append(np.log(low / high) / np.log(5000 / 300))
    assert -0.2 < min(slopes) < 0.4 and 1.6 < max(slopes) < 2.2


def test_copies_follow_their_utterance_and_match_their_features(sounds, tmp_path):
    copies = NoisyCopies(2, (str(sounds[0]),), (str(sounds[1]),))
    options = PrepareOptions(speeds=(0.9, 1.0), noisy_copies=copies)
    item = Utterance("u", write_audio(tmp_path / "u.wav", speech("hello world"), 16000), "HELLO WORLD", "ann")
    cuts = list(load_cuts(prepare([item], tmp_path / "data", "set", options).manifest))
    assert [cut.id for cut in cuts] == ["u_sp0.9", "u_sp0.9_noisy1", "u_sp0.9_noisy2", "u", "u_noisy1", "u_noisy2"]
    clean = cuts[3].load_features()
    for cut in cuts[4:]:
        features = cut.load_features()
        assert cut.supervisions[0].text == "HELLO WORLD" and cut.supervisions[0].speaker == "ann"
        assert features.shape == clean.shape and cut.duration == cuts[3].duration
        quiet = clean.mean(axis=1).argsort()[:10]
        assert (features[quiet] - clean[quiet]).mean() > 1.0, "the pauses are filled"
        assert np.abs(features - fbank(cut.load_audio()[0]).numpy()).max() < 0.02
    assert np.abs(cuts[4].load_features() - cuts[5].load_features()).mean() > 0.1, "the two copies differ"


def test_copies_with_margins_are_longer_and_play_back(tmp_path):
    items = utterances(tmp_path, 4)
    options = PrepareOptions(noisy_copies=NoisyCopies(2, margins_s=(0.3, 2.0)))
    cuts = list(load_cuts(prepare(items, tmp_path / "data", "set", options).manifest))
    added = []
    for index, cut in enumerate(cuts):
        original = cuts[index // 3 * 3]
        assert cut.supervisions[0].text == original.supervisions[0].text
        features = cut.load_features()
        assert len(features) == cut.num_frames == round(cut.duration * 100)
        assert np.abs(features - fbank(cut.load_audio()[0]).numpy()).max() < 0.02
        if cut is not original:
            (room,) = cut.recording.transforms
            assert cut.duration == pytest.approx(original.duration + room.before_s + room.after_s)
            added += [room.before_s, room.after_s]
    assert 0.3 <= min(added) < 0.8 and 1.5 < max(added) <= 2.0 and len(set(added)) > 12
    with pytest.raises(ValueError, match=r"0\.5 s from 0\.2 s on of a copy with margins; expected all of it"):
        cuts[1].truncate(offset=0.2, duration=0.5).load_audio()


def test_copy_made_too_long_by_margins_is_refused(tmp_path):
    (item,) = utterances(tmp_path, 1)
    options = PrepareOptions(max_duration_s=3.0, noisy_copies=NoisyCopies(1, margins_s=(2.0, 2.0)))
    result = prepare([item], tmp_path / "data", "set", options)
    assert [cut.id for cut in load_cuts(result.manifest)] == ["u0"]
    assert [(refusal.id, refusal.reason) for refusal in result.refusals] == [("u0_noisy1", "too long")]


def test_a_fresh_process_reads_the_manifest(tmp_path):
    options = PrepareOptions(noisy_copies=NoisyCopies(1))
    result = prepare(utterances(tmp_path, 1), tmp_path / "data", "set", options)
    code = f"from asr.data.cuts import load_cuts; print([c.id for c in load_cuts({str(result.manifest)!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['u0', 'u0_noisy1']", done.stderr


def test_preparing_again_gives_the_same_copies(sounds, tmp_path):
    items = utterances(tmp_path, 3)
    options = PrepareOptions(noisy_copies=NoisyCopies(1))
    first = prepare(items, tmp_path / "one", "set", options)
    # In a different order, with a different number of jobs and after other random numbers.
    np.random.default_rng().random(7)
    again = prepare(items[::-1], tmp_path / "two", "set", PrepareOptions(num_jobs=2, noisy_copies=NoisyCopies(1)))
    ours, theirs = ({cut.id: cut for cut in load_cuts(result.manifest)} for result in (first, again))
    assert ours.keys() == theirs.keys() == {f"u{i}{suffix}" for i in range(3) for suffix in ("", "_noisy1")}
    for id in ours:
        assert np.array_equal(ours[id].load_features(), theirs[id].load_features()), id
        assert ours[id].recording.transforms == theirs[id].recording.transforms


def asr_prepare(tmp_path: Path, *arguments: object) -> int:
    table = tmp_path / "mine.tsv"
    table.write_text("".join(["path\ttext\n", *(f"{u.audio}\t{u.text}\n" for u in utterances(tmp_path, 2))]))
    return main(
        ["prepare", "manifest", str(table), "--out", str(tmp_path / "out"), "--jobs", "1", *map(str, arguments)]
    )


def test_command_line(sounds, tmp_path, capsys):
    noise = sounds[1]
    assert asr_prepare(tmp_path, "--noise", noise.parent, "--snr-db", "12,12") == 0
    cuts = list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))
    assert len(cuts) == 4, "one copy unless told"
    (transform,) = cuts[1].recording.transforms
    assert transform.snr_db == 12.0 and transform.room is None and Path(transform.noise).parent == noise.parent
    assert asr_prepare(tmp_path, "--rir", sounds[0].parent) == 0
    (transform,) = list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))[1].recording.transforms
    assert Path(transform.room).parent == sounds[0].parent and transform.noise is None
    assert asr_prepare(tmp_path, "--margins", "0.3,2", "--telephone", 2) == 0
    cuts = list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))
    assert [cut.id.split("_")[-1] for cut in cuts[1:4]] == ["noisy1", "telephone1", "telephone2"]
    assert all(0.3 <= cut.recording.transforms[0].after_s <= 2 for cut in cuts[1:4])
    assert asr_prepare(tmp_path, "--snr-db", "7,7") == 0
    (transform,) = list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))[1].recording.transforms
    assert transform.snr_db == 7.0
    assert asr_prepare(tmp_path, "--noisy-copies", 3) == 0
    assert len(list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))) == 8
    assert asr_prepare(tmp_path) == 0
    assert len(list(load_cuts(tmp_path / "out" / "mine.jsonl.gz"))) == 2, "nothing changes without the options"
    capsys.readouterr()


def test_what_cannot_be_used_is_named(sounds, tmp_path, capsys):
    def error(*arguments):
        assert asr_prepare(tmp_path, *arguments) == 1
        return capsys.readouterr().err

    empty, bad = tmp_path / "empty", tmp_path / "bad"
    empty.mkdir()
    (empty / "notes.txt").write_text("no sound")
    assert f"noise folder {empty} holds no audio; expected .aif" in error("--noise", empty)
    assert "impulse response folder" in error("--rir", tmp_path / "gone")
    write_audio(bad / "good.wav", hum(0.5))
    (bad / "broken.flac").write_bytes(b"not audio at all")
    message = error("--noise", bad)
    assert str(bad / "broken.flac") in message and "cannot be read" in message
    assert not (tmp_path / "out").exists()
    (bad / "broken.flac").unlink()
    (bad / "good.wav").unlink()
    write_audio(bad / "silent.wav", 0 * hum(0.5))
    assert "silent.wav holds only digital silence" in error("--noise", bad)
    cut = write_audio(bad / "silent.wav", hum(0.5))
    cut.write_bytes(cut.read_bytes()[:5000])
    assert "silent.wav: is cut off" in error("--rir", bad)
    write_audio(bad / "silent.wav", hum(0.5)[:0])
    assert "silent.wav lasts 0.0 s" in error("--rir", bad)
    write_audio(bad / "silent.wav", np.zeros(601 * 1000), 1000)
    assert "lasts 601.0 s; expected more than 0 and at most 600 s" in error("--rir", bad)
    assert "--snr-db is '5'; expected two numbers" in error("--noisy-copies", 1, "--snr-db", "5")
    assert "ratios 25.0 to 5.0 dB" in error("--noisy-copies", 1, "--snr-db", "25,5")
    assert "--margins is 'long'; expected two numbers such as 0.3,2" in error("--margins", "long")
    assert "margins of 2.0 to 0.3 s; expected a range within 0 to 30 s" in error("--margins", "2,0.3")
    assert "--margins needs noisy copies" in error("--margins", "1,2", "--noisy-copies", 0)
    assert "--snr-db needs noisy copies" in error("--snr-db", "1,2", "--noisy-copies", 0)
    assert "--noise needs noisy copies" in error("--noise", tmp_path, "--noisy-copies", 0)
    assert "--rir needs noisy copies" in error("--rir", tmp_path, "--noisy-copies", 0)
    assert "1.5 telephone copies; expected a share" in error("--telephone", 1.5)
    assert "-1 noisy copies; expected 1 to 100" in error("--noisy-copies", -1)
    assert find_sounds(sounds[0].parent, "noise") == (str(sounds[1]), str(sounds[0]))


def test_noise_has_the_suffixes_of_libsndfile(tmp_path):
    paths = [write_audio(tmp_path / f"a.{suffix}", hum(0.5)) for suffix in ("au", "caf", "rf64", "w64")]
    assert find_sounds(tmp_path, "noise") == tuple(map(str, paths))


def test_a_closed_folder_of_noise_is_an_error(tmp_path, monkeypatch):
    write_audio(tmp_path / "a.wav", hum(0.5))
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def denied(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(ValueError, match=r"noise folder .*/closed cannot be read: Permission denied"):
        find_sounds(tmp_path, "noise")
