"""Tokens and words: every kind of tokenizer decodes to the original text, and is stored as one JSON object."""

import itertools
import json
import pickle
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.text import TextNormalizer, detokenize, noise_tags, parse_alphabet
from asr.tokenizer import BLANK_ID, KINDS, SOS_EOS_ID, UNK_ID, Tokenizer

SENTENCE = "THE QUICK BROWN FOX JUMPS OVER A LAZY DOG IT'S THE FOX'S JUMPING AND THE DOG'S SLEEPING"
WORDS = SENTENCE.split()
TEXTS = [" ".join(WORDS[i : i + 5]) for i in range(len(WORDS) - 4)] * 4
CHARACTERS = "".join(sorted(set("".join(WORDS))))


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    sizes = {"char": None, "bpe": 60, "unigram": 45, "wordpiece": 70}
    return {kind: Tokenizer.train(kind, TEXTS, sizes[kind]) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(st.text(CHARACTERS + " \t\n", max_size=40))
def test_decode_returns_what_encode_was_given(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == " ".join(text.split())
    assert detokenize(tokenizer.tokens[id] for id in ids) == " ".join(text.split())
    assert not {BLANK_ID, UNK_ID, SOS_EOS_ID} & set(ids)


def test_characters_have_boundaries_only_between_words(tokenizers):
    tokenizer = tokenizers["char"]
    assert tokenizer.tokens[:4] == ("<blk>", "<unk>", "<sos/eos>", "▁")
    assert [tokenizer.tokens[id] for id in tokenizer.encode(" A  DOG ")] == ["A", "▁", "D", "O", "G"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_spelled_is_unknown(tokenizers, kind):
    tokenizer = tokenizers[kind]
    assert UNK_ID in tokenizer.encode("THE É DOG")
    assert UNK_ID in tokenizer.encode("THE ▁ DOG"), "a word boundary in the text is no word boundary"
    assert BLANK_ID not in tokenizer.encode("<blk>") and SOS_EOS_ID not in tokenizer.encode("<sos/eos>")
    assert tokenizer.encode("") == tokenizer.encode(" \n ") == []
    assert tokenizer.unknown_letters(["THE É DOG", "É ▁ "]) == {"É": 2, "▁": 1}


def test_decode_omits_special_tokens_and_refuses_unknown_ids(tokenizers):
    tokenizer = tokenizers["char"]
    a = tokenizer.tokens.index("A")
    assert tokenizer.decode([SOS_EOS_ID, a, BLANK_ID, a, UNK_ID, SOS_EOS_ID]) == "AA"
    for id in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=f"token id {id} is outside 0 to {tokenizer.vocab_size - 1}"):
            tokenizer.decode([id])


def test_wordpiece_encodes_as_its_library_does(tokenizers):
    from tokenizers import Tokenizer as Reference
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = tokenizers["wordpiece"]
    vocab = {"<unk>": 1}
    for id, token in enumerate(tokenizer.tokens[3:], 3):
        vocab[token[1:] if token.startswith("▁") else f"##{token}"] = id
    reference = Reference(WordPiece(vocab, unk_token="<unk>", max_input_chars_per_word=100))
    reference.pre_tokenizer = WhitespaceSplit()
    for length in range(1, 4):
        for letters in itertools.product("TEHOX'É", repeat=length):
            text = "".join(letters) + " JUMPS"
            assert tokenizer.encode(text) == reference.encode(text).ids


@pytest.mark.parametrize("kind", KINDS)
def test_copies_by_json_and_pickle_are_equal(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode("THE LAZY DOG")
    for copy in (
        Tokenizer.from_dict(json.loads(json.dumps(tokenizer.to_dict()))),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert copy == tokenizer
        assert copy.encode("THE LAZY DOG") == ids


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "morse"}, "kind is 'morse'; choose one of char, bpe"),
        ({"tokens": ["<unk>", "<blk>", "<sos/eos>", "A"]}, "tokens begin with"),
        ({"tokens": ["<blk>", "<unk>", "<sos/eos>"]}, "3 tokens; expected 4"),
        ({"tokens": ["<blk>", "<unk>", "<sos/eos>", "A", "A"]}, "token 4 is 'A'"),
        ({"tokens": ["<blk>", "<unk>", "<sos/eos>", "A B"]}, "token 3 is 'A B'"),
        ({"tokens": ["<blk>", "<unk>", "<sos/eos>", "A▁B"]}, "token 3 is 'A▁B'"),
        ({"tokens": ["<blk>", "<unk>", "<sos/eos>", 7]}, "tokens holds 7; expected strings"),
        ({"tokens": "ABCD"}, "tokens is 'ABCD'; expected list"),
        ({"format_version": 2}, "format_version is 2; this release reads 1"),
        ({"format_version": True}, "format_version is True; expected int"),
        ({"model": "ä"}, "model is not base64"),
        ({"model": "QUJD"}, "a char tokenizer has no model"),
        ({"extra": 1}, "missing or unknown: extra"),
    ],
)
def test_a_damaged_tokenizer_is_refused(tokenizers, change, message):
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_dict(tokenizers["char"].to_dict() | change)


def test_a_damaged_sentencepiece_model_is_refused(tokenizers):
    data = tokenizers["bpe"].to_dict()
    with pytest.raises(ValueError, match="a bpe tokenizer needs a model"):
        Tokenizer.from_dict(data | {"model": ""})
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        Tokenizer.from_dict(data | {"model": "QUJD"}).encode("A")
    swapped = data["tokens"][:3] + data["tokens"][:2:-1]
    with pytest.raises(ValueError, match="differs from the pieces"):
        Tokenizer.from_dict(data | {"tokens": swapped}).encode("A")


@pytest.mark.parametrize(("data", "message"), [([], "an object with"), ({}, "missing")])
def test_data_that_is_no_tokenizer_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_dict(data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("morse", ["A"]), "kind is 'morse'"),
        (("bpe", []), "no text to train"),
        (("bpe", [" \n"]), "no text to train"),
        (("char", ["ABC"], 6), "vocab_size is 6; 3 characters need at least 7"),
        (("bpe", ["ABC"], 70000), "65536 is the most"),
        (("char", ["A▁B"]), "remove it"),
    ],
)
def test_training_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Tokenizer.train(*arguments)


def test_wordpiece_spells_words_beginning_with_its_prefix():
    tokenizer = Tokenizer.train("wordpiece", ["##A B#A"], 20)
    assert tokenizer.decode(tokenizer.encode("##A #B A#")) == "##A #B A#"


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same(tokenizers, kind):
    assert Tokenizer.train(kind, TEXTS, tokenizers[kind].vocab_size) == tokenizers[kind]


@pytest.mark.parametrize(
    ("normalizer", "text", "expected", "refused"),
    [
        (TextNormalizer(), "“Well-known,” he said…  DON’T!", "WELL KNOWN HE SAID DON'T", ""),
        (TextNormalizer(), "route 66", "ROUTE", "6"),
        (TextNormalizer(), "café & bar", "CAF BAR", "É&"),
        (TextNormalizer(), "ﬁve Ｆｕｌｌ", "FIVE FULL", ""),
        (TextNormalizer("lower"), "Hello There.", "hello there", ""),
        (TextNormalizer("keep"), "Hello There.", "Hello There", ""),
        (TextNormalizer(outside="refuse"), "HI!", "HI", "!"),
        (TextNormalizer(outside="strip"), "ROUTE 66!", "ROUTE", ""),
        (TextNormalizer("keep", "any"), "Ça va? 3€", "Ça va? 3€", ""),
        (TextNormalizer("keep", "any"), "a▁b", "a b", "▁"),
        (TextNormalizer("upper", "A-ZÄÖÜ-"), "Öl-Fass", "ÖL-FASS", ""),
        (TextNormalizer(), "?!", "", ""),
        (TextNormalizer(), "co\u00adoperate\ufeff and\u200bjoin", "COOPERATE AND JOIN", ""),
        (TextNormalizer(noise_tags="strip"), "I [noise] w- saw(laughter) ｛cough｝ IT <unk>", "I SAW IT", ""),
        (TextNormalizer(noise_tags="keep"), "I [noise] w- saw it", "I NOISE W SAW IT", ""),
    ],
)
def test_text_is_brought_into_the_alphabet(normalizer, text, expected, refused):
    normalized = normalizer(text)
    assert normalized.text == expected
    assert "".join(normalized.refused) == refused


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (
            "I [noise] saw {background noise} it (laughter) <unk>",
            ["[noise]", "{background noise}", "(laughter)", "<unk>"],
        ),
        ("the w- the well-known ca-", ["w-", "ca-"]),
        ("vor- und nachteile, pre- and post-war -- he said and went--", []),
        ("a smile :) and 3 < 4", []),
    ],
)
def test_noise_tags_are_no_words(text, tags):
    assert noise_tags(text) == tags
    normalized = TextNormalizer("lower")(text)
    assert normalized.noise_tags == tuple(tags) and normalized.has_noise == bool(tags)


def test_the_suggested_alphabet_is_sufficient():
    text = "தமிழ் மொழி"
    found = re.search('--alphabet "(.*)"', TextNormalizer().suggestion(TextNormalizer()(text).outside))
    normalized = TextNormalizer("upper", found[1])(text)
    assert (normalized.text, normalized.refused) == (text, ())
    assert TextNormalizer().suggestion(TextNormalizer()("I \u2764\ufe0f NY").outside) == ""


def test_characters_outside_are_counted():
    assert TextNormalizer()("1 + 1, 2").outside == {"1": 2, "+": 1, ",": 1, "2": 1}


@given(st.text(max_size=60), st.sampled_from(["upper", "lower", "keep"]))
def test_normalized_text_is_in_the_alphabet_and_stable(text, case):
    normalizer = TextNormalizer(case)
    once = normalizer(text).text
    assert set(once) <= (parse_alphabet("A-Za-z'") or set())
    assert normalizer(once).text == once == " ".join(once.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("title",), "case is 'title'"),
        (("upper", None, "ignore"), "outside is 'ignore'"),
        (("upper", None, "strip", "hide"), "noise_tags is 'hide'; choose one of drop, keep, strip"),
        (("upper", "Z-A"), "runs backwards; write A-Z"),
        (("upper", " "), "has no characters"),
        (("upper", "A-Za-c"), "holds 'abc', which --upper text never contains"),
    ],
)
def test_strange_normalizers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TextNormalizer(*arguments)


def test_run_time_needs_no_pytorch_or_tokenizer_library(tokenizers):
    code = (
        "import sys, asr.text, asr.features, asr.data.manifests, asr.tokenizer as t\n"
        f"tokenizer = t.Tokenizer.from_dict({tokenizers['bpe'].to_dict()!r})\n"
        "print(tokenizer.decode([7, 8]))\n"
        "heavy = {'torch', 'torchaudio', 'lhotse', 'sentencepiece', 'tokenizers', 'numpy'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == tokenizers["bpe"].decode([7, 8])
