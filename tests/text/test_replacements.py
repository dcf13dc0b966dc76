"""Replacements and snippets: applied last, at every occurrence; errors state the limits."""

from __future__ import annotations

import pytest

from asr._core import TextFormatter, text_options

LIST = [
    "my address -> 12 Main Street",
    "my address at work -> 1 High Street",
    "phronsie -> Phronsie",
    "g p t four -> GPT-4",
    "sign off -> Yours,\\nAnn",
    "25 pounds -> £25",
]


def formatter(replace: list[str], **options: object) -> TextFormatter:
    options = {"language": "en"} | options
    made = text_options(replace="\n".join(replace), **options)  # type: ignore[arg-type]
    assert made is not None
    return TextFormatter(made)


def words_of(text: str) -> list[tuple[str, float, float, float]]:
    return [(word, float(i), i + 0.9, 0.9 - i / 100) for i, word in enumerate(text.upper().split())]


def final(text: str, replace: list[str] = LIST, **options: object) -> list[tuple[str, float, float, float]]:
    made = formatter(replace, **options)  # type: ignore[arg-type]
    made.final(words_of(text))
    return made.shown()[0]


@pytest.mark.parametrize(
    ("spoken", "shown"),
    [
        ("send it to my address please", ["send", "it", "to", "12 Main Street", "please"]),
        ("my address at work", ["1 High Street"]),
        ("my address at home", ["12 Main Street", "at", "home"]),
        ("phronsie's doll and phronsie", ["Phronsie's", "doll", "and", "Phronsie"]),
        ("ask g p t four", ["ask", "GPT-4"]),
        ("sign off", ["Yours,\nAnn"]),
        ("twenty five pounds", ["£25"]),
        ("my old address", ["my", "old", "address"]),
    ],
)
def test_phrase_is_replaced_as_spoken_or_as_shown(spoken: str, shown: list[str]) -> None:
    assert [word for word, *_ in final(spoken)] == shown


def test_marks_stay_around_and_prevent_within_a_phrase() -> None:
    said = {"commands": True}
    quoted = final("open quote my address close quote comma yes", **said)
    assert quoted[0][0] == '"12 Main Street",'
    assert [word for word, *_ in final("sign comma off", **said)] == ["Sign,", "off"]
    assert [word for word, *_ in final("inc period", ["inc -> Inc."], **said)] == ["Inc."]


def test_replacement_has_joint_times_and_least_confidence() -> None:
    assert final("to my address") == [
        ("to", 0.0, 0.9, pytest.approx(0.9)),
        ("12 Main Street", 1.0, 2.9, pytest.approx(0.88)),
    ]


def test_word_that_may_begin_a_phrase_is_unstable() -> None:
    made = formatter(LIST)
    num_stable = []
    for count in range(1, 7):
        made.partial(words_of("to my address at work now")[:count], count)
        num_stable.append(made.shown()[1])
    assert num_stable == [0, 1, 1, 1, 1, 2]


def test_replaces_in_every_language_and_in_plain_text() -> None:
    assert [word for word, *_ in final("ÄRGER MIT ANN", ["ann -> Änne"], language="")][2] == "Änne"
    plain = formatter(["ann -> Anne"], text="plain")
    plain.final(words_of("hello ann"))
    assert [word for word, *_ in plain.shown()[0]] == ["hello", "Anne"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["my address = 12"], "replacement line 'my address = 12' has no arrow"),
        (["x" + "ä" * 60], f"replacement line 'x{'ä' * 39}...' has no arrow"),  # cut between characters
        (["my address ->"], "replacement line 'my address ->' has nothing after the arrow"),
        (["a b c d e f g h i j k l m n o p q -> r"], "has 17 words before the arrow; it must have 1 to 16"),
        (["a -> " + "b" * 10001], "has 10001 bytes after the arrow; it may have 10000"),
        (["a -> b", "A -> c"], "replacement line 'A -> c' gives 'a' a second text"),
        (["a -> b\x07"], "replacement line 'a -> b?' has a control character; remove it"),
        (["a -> b\x0bc"], "has a control character; write a line break as"),
    ],
)
def test_invalid_line_is_skipped_and_named(lines: list[str], message: str) -> None:
    options = text_options(language="en", replace="\n".join(["zoe -> Zoë", *lines]))
    assert options is not None
    (warning,) = options.warnings
    assert message in warning
    assert next(word for word, *_ in final("zoe a", ["zoe -> Zoë", *lines])) == "Zoë"


def test_a_list_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="the list replace has more than 1048576 bytes; leave entries out"):
        formatter([f"w{n} -> x" for n in range(110_000)])
