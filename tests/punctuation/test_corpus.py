"""Training text for case and punctuation: the words read from a line, and the text that is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from asr.punctuation.corpus import LOWER, UNKNOWN_CASE, Corpus, CorpusReader, read

MARKS = ("", ",", ".", "?")


def corpus_of(*lines: str) -> Corpus:
    reader = CorpusReader()
    for line in lines:
        reader.add(line)
    return reader.corpus()


def shown(corpus: Corpus) -> str:
    """Words with punctuation; ~ before a word whose case is unknown."""
    texts = []
    for word, mark, case in zip(corpus.words, corpus.marks, corpus.cases, strict=True):
        text = corpus.vocabulary[word]
        text = (text, text.capitalize(), text.upper(), "~" + text)[case]
        texts.append(text + MARKS[mark])
    return " ".join(texts)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The old man saw John, and I left.", "~the old man saw John, and I left."),
        ('"Come!" cried Mr. Smith; "it\'s late -- I\'m tired."', "~come, cried Mr Smith, it's late, I'm tired."),
        ("‘Where are you going?’ he asked John.", "~where are you going? he asked John."),
        ('He said, "Then go home."', "~he said, ~then go home."),
        ("Well... we saw it... He left!", "~well, we saw it. ~he left."),
        ("The well-known M.P. met J. R. Brown.", "~the well known M P met J R Brown."),
        ("It cost $25 in 1842 [12], i.e. nothing.", "~it cost $25 in 1842, i e nothing."),
        ("They watch the BBC's news on NBC.", "~they watch the BBC'S news on NBC."),
        ("He was goin' 'cause 'tis late.", "~he was goin' 'cause 'tis late."),
        ("The U.S. Army came approx. at noon.", "~the U S Army came approx at noon."),
        (
            "He left. The man saw it. But she stayed. I saw. So?",
            "~he left. ~the man saw it. ~but she stayed. I saw. ~so?",
        ),
        ("He lives in The Hague now.", "~he lives in The Hague now."),  # one such capital may begin a name
        ("Plan A and vitamin A help the following:", "~plan A and vitamin A help the following."),
        ('Why did you go?! "Because he left."', "~why did you go? Because he left."),
        ("Well\u2026yes, the café was closed.", "~well yes, the café was closed."),
    ],
)
def test_marks_and_cases_of_a_line(line: str, expected: str) -> None:
    assert shown(corpus_of(line)) == expected


@pytest.mark.parametrize(
    "line",
    [
        "CHAPTER IV",
        "THE OLD MAN AND THE SEA.",
        "ISABELLA MARRIED GEORGE.",
        "The History of the World",
        "I wandered lonely, That floats on high, When all at once I saw, And then The daffodils.",
        "Привет, мир.",
        "A <b>table</b> | of things.",
        "The lord Of rings And men left.",
        " ".join(["word"] * 121) + ".",
    ],
)
def test_text_other_than_prose_separates_the_prose(line: str) -> None:
    corpus = corpus_of("He left.", line, "She stayed.")
    assert shown(corpus) == "~he left. ~she stayed."
    assert corpus.breaks.tolist() == [0, 2]


def test_sentences_begin_at_a_capital() -> None:
    corpus = corpus_of("He left. She stayed? No! it rained.", "So what? they asked.")
    assert [corpus.vocabulary[corpus.words[i]] for i in corpus.starts] == ["he", "she", "no", "so"]


def test_capitals_for_emphasis_teach_nothing() -> None:
    corpus = corpus_of(*["We did not go."] * 9, "We did NOT go.")
    assert corpus.cases[-2] == UNKNOWN_CASE and corpus.cases[2] == LOWER


def test_lists_mixed_case_words_in_their_usual_spelling() -> None:
    corpus = corpus_of(*["We use GitHub and McDonald."] * 6, "We use Github.", "A tYpo.")
    assert corpus.mixed == {"github": "GitHub", "mcdonald": "McDonald"}
    assert shown(corpus).startswith("~we use Github and Mcdonald.")  # capitalized as in the list
    rare = corpus_of(*["We use GitHub."] * 6, *["We use github."] * 6)
    assert rare.mixed == {} and shown(rare).startswith("~we use ~github.")


def test_reads_parts_of_files_up_to_the_words(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The number is {i}.\n" for i in range(1000)), encoding="utf-8")
    assert len(read(path, 1 << 20)) == 4000
    assert 400 <= len(read(path, 400)) <= 404
    first, last = (read(path, 1 << 20, part).corpus() for part in ((0.0, 0.9), (0.9, 1.0)))
    assert not set(first.vocabulary) & set(last.vocabulary) - {"the", "number", "is"}
    assert 3900 <= len(first) + len(last) <= 4000
    assert read(path, 40).corpus().breaks.tolist() == [0]
    assert read(path, 40, apart=True).corpus().breaks.tolist() == list(range(0, 40, 4))


def test_reads_a_share_in_blocks_across_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.punctuation.corpus._BLOCK", 1000)
    path = tmp_path / "text.txt"
    path.write_text("".join(f"Numbers undoubtedly follow {i}.\n" for i in range(1000, 3000)))  # 33 bytes a line
    reader = read(path, 400, (0.5, 1.0))  # three of 33 blocks
    corpus = reader.corpus()
    blocks = [corpus.words[start:stop] for start, stop in zip(corpus.breaks, [*corpus.breaks[1:], None], strict=True)]
    numbers = [[int(corpus.vocabulary[word]) for word in block[3::4]] for block in blocks]
    assert [found[0] for found in numbers] == pytest.approx([2000, 2000 + 11_000 / 33, 2000 + 22_000 / 33], abs=2)
    for found in numbers:
        assert found == list(range(found[0], found[0] + len(found))) and len(found) in (30, 31)
    before = len(reader)
    assert read(path, 48, (0.0, 0.5), reader) is reader and len(reader) - before == 48, "of this file"
    assert reader.corpus().breaks.tolist() == [*corpus.breaks, before], "files do not go on with each other"


def test_a_file_without_prose(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("no marks here\n", encoding="utf-8")
    with pytest.raises(ValueError, match="it has no prose"):
        read(path, 100).corpus()
