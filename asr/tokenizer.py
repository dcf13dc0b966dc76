"""Tokenizers: characters, SentencePiece BPE or unigram, WordPiece; text <-> token ids.

- Ids are indexes into `tokens`: 0 `<blk>` (the CTC blank), 1 `<unk>`, 2 `<sos/eos>`, then the pieces.
- For every kind, "▁" marks the beginning of a word (see `asr.text`), so that ids become text with only the list of
  tokens: no tokenizer library at run time. Kind char: "▁" between words, none before the first.
- A tokenizer is one JSON object with everything, including the library's own model: it is stored in checkpoints.

BPE: Sennrich et al., 2016; unigram: Kudo, 2018; WordPiece: Schuster and Nakajima, 2012.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from asr.text import WORD_BOUNDARY, detokenize

KINDS = ("char", "bpe", "unigram", "wordpiece")
_SENTENCEPIECE_KINDS = ("bpe", "unigram")
BLANK, UNK, SOS_EOS = "<blk>", "<unk>", "<sos/eos>"
SPECIAL_TOKENS = (BLANK, UNK, SOS_EOS)
BLANK_ID, UNK_ID, SOS_EOS_ID = 0, 1, 2
"""`<sos/eos>` starts and ends the decoder's input and output."""
MAX_VOCAB_SIZE = 65536

_FIELDS = {"format_version": int, "kind": str, "tokens": list, "model": str}
_FORMAT_VERSION = 1
_UNKNOWN_CHARACTER = "\ufffd"
# Marks pieces inside a word while WordPiece trains. The usual "##" might begin a word of the text.
_WORDPIECE_PREFIX = _UNKNOWN_CHARACTER


@dataclass(frozen=True)
class Tokenizer:
    """Maps text to token ids and back. Immutable; equal if kind, tokens and model are.

    tokens: the spelling of every id. model: the serialized SentencePiece model for the kinds "bpe" and "unigram"; empty
    for the others, which need only their tokens.
    """

    kind: str
    tokens: tuple[str, ...]
    model: bytes = b""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"tokenizer kind is {self.kind!r}; choose one of {', '.join(KINDS)}")
        if self.tokens[:3] != SPECIAL_TOKENS:
            raise ValueError(f"tokens begin with {self.tokens[:3]}; expected {SPECIAL_TOKENS}")
        if not 3 < len(self.tokens) <= MAX_VOCAB_SIZE:
            raise ValueError(f"{len(self.tokens)} tokens; expected 4 to {MAX_VOCAB_SIZE}")
        seen: set[str] = set()
        for id, token in enumerate(self.tokens):
            # tokens.txt has one token per line, split at white space; a "▁" inside would hide a word.
            if not token or any(c.isspace() for c in token) or WORD_BOUNDARY in token[1:] or token in seen:
                raise ValueError(
                    f"token {id} is {token!r}; expected different, non-empty tokens without white space "
                    f"and with {WORD_BOUNDARY!r} at most in front"
                )
            seen.add(token)
        if bool(self.model) != (self.kind in _SENTENCEPIECE_KINDS):
            raise ValueError(f"a {self.kind} tokenizer {'has no' if self.model else 'needs a'} model")

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], vocab_size: int | None = None) -> Tokenizer:
        """Learns a tokenizer from transcripts.

        vocab_size: number of tokens, including the three special ones; None: all characters (kind "char") or 500
        tokens. Small texts may give fewer pieces.
        Raises ValueError for an unknown kind, texts without a word, or a size too small for the characters.
        """
        if kind not in KINDS:
            raise ValueError(f"tokenizer kind is {kind!r}; choose one of {', '.join(KINDS)}")
        lines = [" ".join(text.split()) for text in texts]
        lines = [line for line in lines if line]
        characters = sorted(set("".join(lines)) - {" "})
        if not characters:
            raise ValueError("no text to train a tokenizer on; expected transcripts with at least one word")
        if not {WORD_BOUNDARY, _UNKNOWN_CHARACTER}.isdisjoint(characters):
            raise ValueError(f"the text has {WORD_BOUNDARY!r} or U+FFFD; remove it")
        least = len(SPECIAL_TOKENS) + len(characters) + 1  # the word boundary
        if kind == "wordpiece":
            least += len(characters) - 1  # each one at the start of a word and inside words
        size = (least if kind == "char" else max(500, least)) if vocab_size is None else vocab_size
        if not least <= size <= MAX_VOCAB_SIZE:
            raise ValueError(
                f"vocab_size is {size}; {len(characters)} characters need at least {least}, "
                f"and {MAX_VOCAB_SIZE} is the most"
            )
        if kind == "char":
            return cls(kind, (*SPECIAL_TOKENS, WORD_BOUNDARY, *characters))
        if kind == "wordpiece":
            return cls(kind, _train_wordpiece(lines, size))
        return cls(kind, *_train_sentencepiece(kind, lines, size))

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; white space only separates words. Text that the pieces cannot spell becomes `<unk>`."""
        # A "▁" in the text is not a word boundary, so it is replaced by a character that no tokenizer has.
        words = text.replace(WORD_BOUNDARY, _UNKNOWN_CHARACTER).split()
        if self.kind == "char":
            return [self._ids.get(character, UNK_ID) for character in WORD_BOUNDARY.join(words)]
        if self.kind == "wordpiece":
            return [id for word in words for id in self._encode_word(word)]
        return list(self._processor.encode(" ".join(words)))

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Characters that no token contains, with their counts in `texts`."""
        letters = set("".join(self.tokens[len(SPECIAL_TOKENS) :])) - {WORD_BOUNDARY}
        found: Counter[str] = Counter()
        for text in texts:
            found.update(c for c in text if c not in letters and not c.isspace())
        return found

    def _encode_word(self, word: str) -> list[int]:
        """Longest piece first, from the left; a word that cannot be spelled completely is `<unk>`."""
        ids = []
        rest = WORD_BOUNDARY + word
        while rest:
            length = min(len(rest), self._longest_piece)
            while length and rest[:length] not in self._ids:
                length -= 1
            if not length:
                return [UNK_ID]
            ids.append(self._ids[rest[:length]])
            rest = rest[length:]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids without special tokens.

        Raises ValueError for an id outside the vocabulary.
        """
        pieces = []
        for id in ids:
            if not 0 <= id < len(self.tokens):
                raise ValueError(f"token id {id} is outside 0 to {len(self.tokens) - 1}")
            if id >= len(SPECIAL_TOKENS):
                pieces.append(self.tokens[id])
        return detokenize(pieces)

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable form, for `from_dict`."""
        model = base64.b64encode(self.model).decode("ascii")
        return {
            "format_version": _FORMAT_VERSION,
            "kind": self.kind,
            "tokens": list(self.tokens),
            "model": model,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Tokenizer:
        """Inverse of `to_dict`. Raises ValueError with the missing, unknown or wrong field."""
        if not isinstance(data, dict):
            raise ValueError(f"a tokenizer is an object with {', '.join(_FIELDS)}; got {type(data).__name__}")
        if data.keys() != _FIELDS.keys():
            odd = sorted(map(str, data.keys() ^ _FIELDS.keys()))
            raise ValueError(f"tokenizer fields missing or unknown: {', '.join(odd)}")
        for name, kind in _FIELDS.items():
            if type(data[name]) is not kind:
                raise ValueError(f"tokenizer field {name} is {data[name]!r:.60}; expected {kind.__name__}")
        if data["format_version"] != _FORMAT_VERSION:
            raise ValueError(
                f"tokenizer format_version is {data['format_version']}; this release reads {_FORMAT_VERSION}"
            )
        odd = [token for token in data["tokens"] if not isinstance(token, str)]
        if odd:
            raise ValueError(f"tokenizer field tokens holds {odd[0]!r:.60}; expected strings")
        try:
            model = base64.b64decode(data["model"], validate=True)
        except ValueError as error:
            raise ValueError(f"tokenizer field model is not base64: {error}") from error
        return cls(data["kind"], tuple(data["tokens"]), model)

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Special tokens are never matched: in a text, "<unk>" is five characters.
        first = len(SPECIAL_TOKENS)
        return {token: id for id, token in enumerate(self.tokens[first:], first)}

    @cached_property
    def _longest_piece(self) -> int:
        return max(map(len, self._ids))

    @cached_property
    def _processor(self) -> Any:
        import sentencepiece

        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
            pieces = tuple(processor.id_to_piece(list(range(processor.get_piece_size()))))
        except RuntimeError as error:
            raise ValueError(f"tokenizer field model is not a SentencePiece model: {error}") from error
        if pieces != self.tokens:
            raise ValueError("tokenizer field tokens differs from the pieces of its SentencePiece model")
        return processor

    def __getstate__(self) -> dict[str, Any]:
        # The cache belongs to this process and is rebuilt when needed.
        return {"kind": self.kind, "tokens": self.tokens, "model": self.model}


def _train_sentencepiece(kind: str, lines: list[str], vocab_size: int) -> tuple[tuple[str, ...], bytes]:
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=kind,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",  # the text is already normalized, and decoding must return it unchanged
            max_sentence_length=1 << 16,  # bytes; longer lines would be skipped
            pad_id=BLANK_ID,
            pad_piece=BLANK,
            unk_id=UNK_ID,
            unk_piece=UNK,
            bos_id=SOS_EOS_ID,
            bos_piece=SOS_EOS,
            eos_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(f"SentencePiece cannot train {vocab_size} {kind} tokens: {error}") from error
    proto = model.getvalue()
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return tuple(processor.id_to_piece(list(range(processor.get_piece_size())))), proto


def _train_wordpiece(lines: list[str], vocab_size: int) -> tuple[str, ...]:
    from tokenizers import Tokenizer as Trainable
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.trainers import WordPieceTrainer

    # A fixed list of characters fixes their ids, with which the trainer breaks ties. Otherwise, every run would give
    # different pieces, and a character never seen inside a word could not be spelled there.
    characters = sorted(set("".join(lines)) - {" "})
    known = [*SPECIAL_TOKENS, *characters, *(_WORDPIECE_PREFIX + character for character in characters)]
    trainable = Trainable(WordPiece(unk_token=UNK))
    trainable.pre_tokenizer = WhitespaceSplit()
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=known,
        continuing_subword_prefix=_WORDPIECE_PREFIX,
        show_progress=False,
    )
    trainable.train_from_iterator(lines, trainer)
    vocab = trainable.get_vocab()
    pieces = sorted(vocab, key=vocab.__getitem__)[len(SPECIAL_TOKENS) :]
    # Removes the prefix; pieces without it begin a word.
    inner = _WORDPIECE_PREFIX
    return SPECIAL_TOKENS + tuple(
        piece.removeprefix(inner) if piece.startswith(inner) else WORD_BOUNDARY + piece for piece in pieces
    )
