"""`verify.py`, which imports nothing of the product, finds the noise of each kind of question."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.answers import encode_answer
from accountant.policy import Neighbours
from accountant.questions import encode_schema
from accountant.questions.sensitivity import VectorStatistic
from streams.evidence import verify
from tests.accountant.answers.runs import RUNS, Asked, answer, ask, zeros
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import CENSUS, replaced
from tests.every_case import check_each

RELATIONS: list[Neighbours] = ["add_remove", "replace"]


def records(asked: Asked) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return an answer, its claim and its schema as records of JSON."""
    found = msgspec.json.decode(encode_answer(answer(asked, zeros(asked), bits_of(1))))
    return found, found["claim"], msgspec.json.decode(encode_schema(asked.checked.schema))


def test_the_noise_of_each_question_is_at_its_claim() -> None:
    def check_case(run: tuple[str, str], relation: Neighbours) -> None:
        asked = ask(*run, schema=replaced(CENSUS, neighbours=relation))
        draws = asked.derivation.draws
        if all(isinstance(draw.statistic, VectorStatistic) for draw in draws):
            assert verify.check_noise(*records(asked), None)

    check_each(check_case, RUNS, RELATIONS)


def test_less_noise_than_was_claimed_is_found() -> None:
    for text in ("mean(age) by region", "variance(income)"):
        asked = ask(text, "epsilon: 1")
        found, claim, schema = records(asked)
        found["statistics"][-1]["scale"] = str((asked.derivation.draws[-1].scale or 0) / 2)
        with pytest.raises(verify.Wrong, match="at its claim"):
            verify.check_noise(found, claim, schema, None)
