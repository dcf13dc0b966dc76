"""Spoken commands: their text, no doubled punctuation, and no commands in ordinary sentences."""

from __future__ import annotations

import json

import pytest
from test_formatter import PROPERTIES, Words

from asr._core import NUM_CASES, NUM_MARKS, PunctuationMetadata, TextFormatter, text_options

COMMA, STOP = 1, 2
MIXED = {"dept": "Dept."}


def words_of(text: str, pause_s: float = 0.0) -> Words:
    """One word per second, with pauses of `pause_s`; "|" is a pause of half a second."""
    words, now = [], 0.0
    for word in text.split():
        if word == "|":
            now += 0.5
            continue
        words.append((word.upper(), now, now + 1.0 - pause_s, 0.9))
        now += 1.0
    return words


class Dictation:
    """A formatter. marks: with a network that puts this punctuation after the given words; None: without a network."""

    def __init__(self, marks: dict[str, int] | None = None, formatted: bool = True, **lists: object) -> None:
        metadata = PunctuationMetadata(PROPERTIES | {"mixed_case": json.dumps(MIXED)})
        network = None if marks is None else metadata
        given: dict[str, object] = {"commands": True}
        for name, value in lists.items():
            given[name] = "\n".join(value) if isinstance(value, list) else value
        options = text_options(text="formatted" if formatted else "plain", language="en", punctuation=network, **given)  # type: ignore[arg-type]
        assert options is not None
        self.formatter, self.marks = TextFormatter(options), marks
        self.taken_back = 0

    def partial(self, text: str, num_stable: int) -> list[str]:
        """The stable words."""
        run = self.formatter.partial(words_of(text), num_stable)
        words, num_shown, _ = self.shown(run)
        return [word for word, *_ in words[:num_shown]]

    def final(self, text: str, is_cut: bool = False, pause_s: float = 0.0) -> str:
        words, _, self.taken_back = self.shown(self.formatter.final(words_of(text, pause_s), is_cut))
        shown = ""
        for word, *_ in words:
            shown += "" if not shown or shown[-1] == "\n" or word[0] == "\n" else " "
            shown += word
        return shown

    def shown(self, run: object) -> tuple[Words, int, int]:
        if run is None:
            return self.formatter.shown()
        marks, cases = [], []
        for i, word in enumerate(run.words):  # type: ignore[attr-defined]
            is_last = i + 1 == len(run.words) and run.complete  # type: ignore[attr-defined]
            mark = (self.marks or {}).get(word, STOP if is_last else 0)
            marks += [float(kind == mark) for kind in range(NUM_MARKS)]
            cases += [float(kind == (word in MIXED)) for kind in range(NUM_CASES)]
        return self.formatter.shown(marks, cases)


SAID = [
    ("foo hyphen open bracket bar close bracket baz", "Foo-[bar] baz"),
    ("foo hyphen open quote bar close quote", 'Foo-"bar"'),
    ("hello comma how are you question mark", "Hello, how are you?"),
    ("it works period we go home full stop", "It works. We go home."),
    ("stop exclamation mark he said colon no semicolon yes", "Stop! He said: no; yes"),
    ("dear mary comma new line thank you period", "Dear mary,\nThank you."),
    ("one new paragraph two", "One\n\nTwo"),
    ("he said open quote good morning close quote and left", 'He said "good morning" and left'),
    ("the box open parenthesis a red one close parenthesis is here", "The box (a red one) is here"),
    ("well hyphen known", "Well-known"),
    ("well dash i think dash is right", "Well – I think – is right"),
    ("ask cap mary about it all caps now", "Ask Mary about it NOW"),
    ("twenty comma five", "20, five"),
    ("at nine p m period then go", "At 9 p.m. Then go"),
    ("no comma comma yes period period", "No, yes."),
    ("so comma question mark", "So?"),
    ("wait dot dot dot what", "Wait... what"),
    ("go to the store period", "Go to the store."),
    ("see you in a week period", "See you in a week."),
    ("i like this period", "I like this."),
    ("no comma i want that period", "No, I want that."),
    ("comma and so on", ", and so on"),
    ("new line", "\n"),
]
ORDINARY = [
    "the period of the war",
    "it was a long period",
    "in the late colonial period",
    "a five year period",
    "a period of two weeks",
    "put a comma there",
    "colon cancer is treatable",
    "the oxford comma is a matter of taste",
    "a new line of products",
    "there is a question mark over it",
    "they came to a full stop",
    "this period of the war",
    "he made a dash for the car",
    "she would dash off a letter",
    "take your cap off",
    "a baseball cap",
    "to cap it all he fell",
    "i want to scratch that itch",
    "scratch that itch",
    "he had to scratch that",
]


@pytest.mark.parametrize(("spoken", "shown"), SAID)
def test_a_command_writes_what_it_names(spoken: str, shown: str) -> None:
    assert Dictation().final(spoken) == shown


@pytest.mark.parametrize(("spoken", "shown"), SAID)
def test_automatic_marks_never_double_a_spoken_one(spoken: str, shown: str) -> None:
    """A network that puts a comma wherever punctuation is spoken; elsewhere its punctuation is kept."""
    before = {"hello", "works", "home", "stop", "said", "no", "yes", "mary", "you", "known", "this", "m", "so", "wait"}
    automatic = Dictation(dict.fromkeys(before, COMMA)).final(spoken)
    doubled = (",,", ",.", ".,", ",?", "?.", "..", ",:", ",;", ",!", "?,")
    assert not any(pair in automatic.replace("...", "…") for pair in doubled), automatic
    spoken_marks = [mark for mark in shown if mark in "?!:;()\n"]
    assert [mark for mark in automatic if mark in "?!:;()\n"] == spoken_marks, automatic


@pytest.mark.parametrize("mark", [0, STOP])
def test_own_full_stop_is_kept_once_before_break(mark: int) -> None:
    dictation = Dictation({"dept": mark, "m": mark, "p.m.": mark})
    assert dictation.final("go to the dept new line thanks") == "Go to the Dept.\nThanks."
    assert dictation.final("at nine p m new line", is_cut=True) == "At 9 p.m.\n"


@pytest.mark.parametrize("spoken", ORDINARY)
def test_an_ordinary_sentence_has_no_command(spoken: str) -> None:
    shown = Dictation(formatted=False).final(spoken)
    assert shown == spoken.replace("i ", "I ", 1) if spoken.startswith("i ") else shown == spoken


def test_a_pause_makes_an_ambiguous_word_a_command() -> None:
    assert Dictation().final("it was a long | period") == "It was a long."
    assert Dictation().final("it was a long period", pause_s=0.24) == "It was a long."
    assert Dictation().final("it was a long period", pause_s=0.20) == "It was a long period"
    assert Dictation().final("it was a | period") == "It was a period"  # an article needs a noun
    assert Dictation().final("go on | scratch that | stop") == "Stop"


def test_scratch_that_takes_back_the_previous_words() -> None:
    said = Dictation()
    assert (said.final("call the office"), said.taken_back) == ("Call the office", 0)
    assert (said.final("scratch that"), said.taken_back) == ("", 1)
    assert (said.final("call bob | scratch that"), said.taken_back) == ("", 0)
    assert (said.final("call bob | scratch that | undo that | call ann"), said.taken_back) == ("Call ann", 1)


def test_spoken_comma_continues_a_sentence_over_any_pause() -> None:
    said = Dictation({})
    assert said.final("hello comma") == "Hello,"
    assert said.final("how are you question mark") == "how are you?"
    assert said.final("i am well").startswith("I am well")
    assert said.final("new paragraph") == "\n\n"
    assert said.final("yours period") == "Yours."


@pytest.mark.parametrize("marks", [None, {}])
@pytest.mark.parametrize("spoken", [spoken for spoken, _ in SAID])
def test_stable_words_stay_whatever_command_follows(spoken: str, marks: dict[str, int] | None) -> None:
    said, before = Dictation(marks), []
    num_words = len(spoken.split())
    for num in range(1, num_words + 1):
        stable = said.partial(" ".join(spoken.split()[:num]), num)
        assert stable[: len(before)] == before
        before = stable
    final = said.final(spoken)
    assert final.replace("\n", " \n ").split()[: len(before)] == " ".join(before).replace("\n", " \n ").split()


def test_plain_text_obeys_commands_and_adds_nothing() -> None:
    assert Dictation(formatted=False).final("hello comma twenty five period yes") == "hello, twenty five. yes"


def test_a_list_adds_commands_and_takes_some_away() -> None:
    said = Dictation(
        commands=False,
        own_commands=[
            "next item -> new line",
            "smiley -> :-)",
            "percent -> %",
            "period ->",
            "bullet -> \\n",
            "Dot -> .",
        ],
    )
    shown = said.final("milk next item ten percent comma period dot smiley bullet end")
    assert shown == "Milk\n10%, period. :-)\nEnd"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["next item new line"], "command line 'next item new line' has no arrow; write what is spoken, ->"),
        (["-> ,"], "command line '-> ,' has 0 words before the arrow; it must have 1 to 16"),
        (["dot -> .", "Dot -> ,"], "command line 'Dot -> ,' gives 'dot' a second meaning"),
        (["x -> " + "y" * 10001], "has 10001 bytes after the arrow; it may have 10000"),
    ],
)
def test_invalid_line_is_skipped_and_named(lines: list[str], message: str) -> None:
    lines = ["smiley -> :-)", *lines]
    options = text_options(language="en", own_commands="\n".join(lines))
    assert options is not None
    (warning,) = options.warnings
    assert message in warning
    assert Dictation(own_commands=lines).final("yes smiley dot").startswith("Yes :-)")


def test_a_language_without_commands_says_so() -> None:
    with pytest.raises(ValueError, match="no table of spoken commands for the language of this model"):
        text_options(language="", commands=True)


def test_sentence_after_a_spoken_break_is_short() -> None:
    """In a sentence of eight words or more, a comma that may be a period becomes one."""
    dictation = Dictation({})
    before = "we went there to see him at home new line"
    dictation.partial(before, 10)
    run = dictation.formatter.partial(words_of(f"{before} yes well then"), 13)
    assert run is not None
    marks = [mark for word in run.words for mark in ([0.0, 0.6, 0.4, 0.0] if word == "yes" else [1.0, 0.0, 0.0, 0.0])]
    cases = [float(kind == 0) for _ in run.words for kind in range(NUM_CASES)]
    words, *_ = dictation.formatter.shown(marks, cases)
    assert "Yes," in [word for word, *_ in words]
