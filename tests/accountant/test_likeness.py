"""Names that are nearly others, and names that stay two."""

from __future__ import annotations

import random
from typing import Final

import pytest

from accountant.likeness import most_alike, typing_errors
from tests.every_case import check_rows
from tests.nightly import rounds

ALIKE: Final = [
    # upper and lower case
    ("People-of-x", "people-of-x"),
    ("A", "a"),
    ("\u0422\u0415\u0421\u0422", "\u0442\u0435\u0441\u0442"),  # Cyrillic
    ("\u039d\u0397\u03a3\u0399", "\u03bd\u03b7\u03c3\u03b9"),  # Greek: a small nu looks like a v
    ("stra\u00dfe", "STRASSE"),
    ("\u0130stanbul", "istanbul"),
    ("d\u0131yar", "DIYAR"),
    ("\u01f0", "J\u030c"),  # the capital letter has two characters
    # separators
    ("pay-roll", "payroll"),
    ("census_2026", "census-2026"),
    ("census 2026", "census.2026"),
    ("census2026", "census:2026"),
    ("a\u2013b", "a-b"),
    ("2026/11/29", "2026-11-29"),
    ("clinic\\east", "clinic/east"),
    ("\u00bd", "1/2"),
    # characters that look alike
    ("census-2O26", "census-2026"),
    ("census-2o26", "census-2026"),
    ("chunk-1O", "chunk-10"),
    ("chunk-lO", "chunk-10"),
    ("v1", "vl"),
    ("v1", "vI"),
    ("Il", "ll"),
    ("2026-O1", "2026-01"),
    ("wave-5", "wave-S"),
    ("\u0430ge", "age"),  # a Cyrillic letter
    ("\uff41ge", "age"),  # a full-width one
    ("age\u200b", "age"),
    ("caf\u00e9", "cafe\u0301"),
    ("wave-\u0662", "wave-2"),  # an Arabic digit
    ("vvage", "wage"),
    ("VVage-2026", "wage-2026"),
    ("rnean(age)", "mean(age)"),
    ("rnea\u0578(age)", "mean(age)"),  # an Armenian letter
    ("dean", "clean"),
    # also where two of them could be another one
    ("c1inic-7", "clinic-7"),
    ("cIinic", "clinic"),
    ("ucl", "uc1"),
    ("rnodel-c1inic", "model-clinic"),
    ("vvvv", "vwv"),
    ("\u13df\u13aaY", "cay"),  # letters of Cherokee
    ("\u1d0f\u0501\u0501", "odd"),  # a small capital, and two Cyrillic letters
    ("owner\u2019s", "owner's"),
    ("\u201cage\u201d", '"age"'),
    ("a\u22172", "a*2"),
    # a comma is a separator, too
    ("1,5", "1.5"),
    ("x=1, y=2", "x=1,y=2"),
    # a dash between digits or letters is no minus sign
    ("wave-5", "wave5"),
    ("a-1", "a1"),
    ("\u00e9-1", "\u00e91"),
    ("x=\u22121", "x=-1"),
    ("low\u2212high", "low-high"),
]
MISSPELT: Final = [
    ("anna", "ana"),
    ("evva", "eva"),
    ("benn", "ben"),
    # typing errors, in the longer name
    ("wage", "wages"),
    ("payrol", "payroll"),
    ("apyroll", "payroll"),
    ("parroll", "payroll"),
    ("cnesus-2O26", "census-2026"),
    ("cennsuss-2026", "census-2026"),
    ("ACCOUNTANT_ULR", "ACCOUNTANT_URL"),
    ("turns", "turn"),
    ("bleu", "blue"),
    ("region-east", "region-west"),
    # a letter that is a part of one name alone
    ("team-a", "team"),
    ("team-ab", "team-b"),
    # a dash typed twice, which a program makes of a number below 0
    ("census--2026", "census-2026"),
    ("w_-1", "w_1"),
]
TWO: Final = [
    # digits of another value or number
    ("census-2026", "census-2027"),
    ("census-2026", "census-2062"),
    ("chunk-1", "chunk-10"),
    ("chunk-1", "chunk-01"),
    ("people", "people2"),
    ("epsilon-1.5", "epsilon-15"),
    ("1-11", "11-1"),
    ("2026-1-2", "2026-12"),
    ("longer-names-3", "longer-names-4"),
    # short names are not misspelt
    ("ab", "abc"),
    ("men", "women"),
    ("blue", "glue"),
    ("abb", "ab"),
    ("anna", "anne"),
    ("a11b", "a1b"),
    ("abc", "acb"),
    ("q1q2", "q2q1"),
    ("abcd", "dcba"),
    # too many errors
    ("payroll", "payslips"),
    ("census", "survey"),
    ("east", "west"),
    ("team-east", "team-west"),
    # a digit that looks like a letter is none of the two that look like another one
    ("arm-c1", "arm-d"),
    # a letter that is a whole part
    ("team-a", "team-b"),
    ("longer-names-x", "longer-names-y"),
    ("plan_a_2026", "plan_b_2026"),
    # numbers of another sign
    ("x=-1", "x=1"),
    ("x=\u22121", "x=1"),
    ("-5", "5"),
    ("offset -12.5 degrees", "offset 12.5 degrees"),
    ("f(1,-1)", "f(1,1)"),
    ("1,5", "15"),
    # other signs are no separators
    ("C", "C++"),
    ("\u0915\u093f", "\u0915\u093e"),  # vowels of Devanagari are marks, and no separators
]
TWO_WITHOUT_EDITS: Final = [
    *MISSPELT,
    ("mean-ia", "mean-la"),
    ("mean-IA", "mean-LA"),
    ("age<40", "age>40"),
]


def test_names_are_alike_whatever_comes_first() -> None:
    def check_case(one: str, other: str, alike: bool, edits: bool) -> None:
        for a, b in ((one, other), (other, one)):
            assert most_alike(a, [b, "quite-another"], edits=edits) == (b if alike else "")

    rows = [(*pair, True, edits) for pair in ALIKE for edits in (True, False)]
    rows += [(*pair, True, True) for pair in MISSPELT]
    rows += [(*pair, False, edits) for pair in TWO for edits in (True, False)]
    rows += [(*pair, False, False) for pair in TWO_WITHOUT_EDITS]
    check_rows(check_case, rows)


def test_a_known_name_is_like_no_other() -> None:
    assert most_alike("Payroll", ["payroll", "Payroll", "pay-roll"]) == ""
    assert most_alike("PAYROLL", []) == ""


def test_the_name_with_the_fewest_errors_is_the_one_meant() -> None:
    assert most_alike("payrolls", ["payrol", "payroll", "Pay-Rolls"]) == "Pay-Rolls"
    assert most_alike("payrollss", ["payroll", "payrolls"]) == "payrolls"


def test_among_very_many_names_case_and_looks_still_count() -> None:
    many = [f"name{i}x" for i in range(10_001)]
    assert most_alike("NAME-77-x", many) == "name77x"
    assert most_alike("name77xy", many) == ""


def name_of_any_letters(choice: random.Random) -> str:
    """Return up to 30 characters, of Latin letters or of any script."""
    last = choice.choice([0x24F, 0xD7FF, 0x1FFFF])
    codes = [choice.randint(1, last) for _ in range(choice.randint(0, 30))]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)  # no surrogates


def test_another_spelling_of_any_name_is_like_it() -> None:
    for seed in range(rounds(100, 5_000)):
        choice = random.Random(seed)
        name = name_of_any_letters(choice)
        other = "".join(each.swapcase() if choice.random() < 0.3 else each for each in name)
        if other.casefold() == name.casefold():
            spelling = f"{other}\u200b "
            alike = "" if spelling == name else name
            assert most_alike(spelling, [name], edits=False) == alike, seed


@pytest.mark.parametrize(("most", "errors"), [(0, 1), (1, 2), (2, 2), (3, 2)])
def test_errors_beyond_the_most_are_not_counted(most: int, errors: int) -> None:
    assert typing_errors("payroll", "apyrolls", most) == errors
