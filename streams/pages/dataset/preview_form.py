"""The form "Would this fit?": a claim, and the decision that it would get now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from accountant.advice.fit import PlanBudget, accepts
from accountant.claims import Claim
from accountant.claims.text import claim_text, parse_claim
from accountant.errors import RequestInvalid
from streams.pages.dataset.request_rows import RefusalText


class Field(NamedTuple):
    """One number of a claim."""

    name: str
    label: str
    example: str


class ClaimKind(NamedTuple):
    """A kind of claim on the form.

    Attributes:
        name: as in a claim's text; "text" for a claim entered as text.
    """

    name: str
    label: str
    fields: tuple[Field, ...]


_EPSILON: Final = Field("epsilon", "ε", "0.1")
_SENSITIVITY: Final = Field("sensitivity", "sensitivity", "1")
_DELTA: Final = Field("delta", "δ", "1e-9")

KINDS: Final = (
    ClaimKind("pure", "Pure ε", (_EPSILON,)),
    ClaimKind("laplace", "Laplace noise", (Field("scale", "scale", "10"), _SENSITIVITY)),
    ClaimKind("gaussian", "Gaussian noise", (Field("sigma", "σ", "20"), _SENSITIVITY)),
    ClaimKind("zcdp", "zCDP", (Field("rho", "ρ", "0.005"),)),
    ClaimKind("approximate", "(ε, δ)", (_EPSILON, _DELTA)),
    ClaimKind("text", "Another claim, as text", (Field("claim", "claim", "10*gdp:0.01"),)),
)
COMMON: Final = (
    ("a count with Laplace noise of scale 10", "laplace", ("10", "1")),
    ("a count with Gaussian noise of σ 20", "gaussian", ("20", "1")),
    ("a result whose library states ε 0.1", "pure", ("0.1",)),
    ("a result whose library states ε 0.01 and δ 1e-9", "approximate", ("0.01", "1e-9")),
    ("a result whose library states ρ 0.005", "zcdp", ("0.005",)),
)
"""Common claims: what they are of in words, their kind, and its numbers in their order."""
_BY_NAME: Final = {kind.name: kind for kind in KINDS}
_LONGEST: Final = 2_000


class PreviewResult(NamedTuple):
    """The outcome of a preview.

    Attributes:
        claim: as text. `cost`: what a grant would cost.
        left: what would remain of the dataset's budget.
        more: how many more such requests would fit, in words.
        ends: what the request would end for good, in words; "" for nothing.
        other_filter: after a refusal, which other filter would grant the claim; "" if none.
        waits: it would wait until an owner approves it.
        command: what asks with the claim, in a terminal.
        errors: of a question, how far each statistic may be from the exact one.
    """

    claim: str
    granted: bool
    cost: str
    left: str
    more: str
    ends: str
    refusal: RefusalText | None
    other_filter: str
    waits: bool = False
    command: str = ""
    errors: Sequence[str] = ()


class PreviewForm(NamedTuple):
    """The form with its values.

    Attributes:
        analyst: whose limits apply, for viewers who read others' requests; "" for none.
        values: by name of the input, `KIND_FIELD`.
        errors: by name of the input.
    """

    kind: str
    times: str
    analyst: str
    values: Mapping[str, str]
    errors: Mapping[str, str]
    result: PreviewResult | None
    kinds: tuple[ClaimKind, ...] = KINDS

    @property
    def first(self) -> str:
        """The first input of the chosen kind."""
        kind = _BY_NAME[self.kind]
        return f"{kind.name}_{kind.fields[0].name}"


def parse_query(query: Mapping[str, str]) -> PreviewForm:
    """Return the form with the values of a query."""
    kind = query.get("kind", "pure")
    values = {
        f"{each.name}_{field.name}": query.get(f"{each.name}_{field.name}", "")[:_LONGEST]
        for each in KINDS
        for field in each.fields
    }
    known = kind if kind in _BY_NAME else "pure"
    analyst = query.get("analyst", "").strip()[:_LONGEST]
    return PreviewForm(known, query.get("times", "1")[:20], analyst, values, {}, None)


def common_claims(form: PreviewForm, budget: PlanBudget) -> list[tuple[str, str]]:
    """Return the common claims that a budget accepts: in words, and the query that previews one."""
    found = list[tuple[str, str]]()
    for words, name, numbers in COMMON:
        fields = [f"{name}_{each.name}" for each in _BY_NAME[name].fields]
        query = {"kind": name, **dict(zip(fields, numbers, strict=True))}
        claim, _ = claim_of(form._replace(kind=name, times="1", values=query))
        if accepts(claim, budget):
            query |= {"analyst": form.analyst} if form.analyst else {}
            found.append((words, urlencode(query)))
    return found


def claim_of(form: PreviewForm) -> tuple[Claim, str]:
    """Return the entered claim, and its text.

    Raises: RequestInvalid: a number breaks its rule; `field` is the input's name.
    """
    kind = _BY_NAME[form.kind]
    values = {field.name: form.values[f"{kind.name}_{field.name}"].strip() for field in kind.fields}
    for name, text in values.items():
        if not text:
            raise RequestInvalid(f"{kind.name}_{name}", "must not be empty", text)
        if kind.name != "text" and any(each in text for each in ",:=*+()"):
            raise RequestInvalid(f"{kind.name}_{name}", "must be a number such as 0.1", text)
    if kind.name == "text":
        text = values["claim"]
    else:
        text = f"{kind.name}:" + ",".join(f"{name}={value}" for name, value in values.items())
    times = form.times.strip() or "1"
    if not times.isdecimal() or not times.isascii() or len(times) > 7:
        raise RequestInvalid("times", "must be a whole number from 1 to 1,000,000", times)
    text = text if int(times) == 1 else f"{int(times)}*({text})"
    try:
        claim = parse_claim(text)
    except RequestInvalid as error:
        raise RequestInvalid(_input_of(kind, error.field), error.rule, error.value) from None
    return claim, claim_text(claim)


def _input_of(kind: ClaimKind, field: str) -> str:
    """Return the input for a field of a claim."""
    last = field.rpartition(".")[2]
    if last == "times":
        return last
    named = [each.name for each in kind.fields]
    return f"{kind.name}_{last if last in named else named[0]}"
