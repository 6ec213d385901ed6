"""Basic composition beside every filter, against a model of exact fractions and 60 digits."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any, Final

import msgspec
import pytest

from accountant.advice.preview import PreviewRequest, preview
from accountant.amounts import UNIT
from accountant.claims import check_claim
from accountant.claims.text import parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.fractional import whole_down
from accountant.ledger.adjudicate import Verdict, adjudicate
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.views.datasets import view_of_ledger
from tests.accountant.filters.policies import POLICIES
from tests.accountant.world import World
from tests.faults.oracle import filters as rules
from tests.faults.oracle.amounts import fraction, mp, real
from tests.faults.oracle.residue import charge
from tests.faults.oracle.worth import atoms, exact
from tests.nightly import rounds

TAKERS: Final = (
    *("advanced_2016", "fully_adaptive", "gdp_residue", "renyi", "renyi_weighted"),
    *("split", "unified_brownian", "zcdp_tight"),
)
EACH: Final = rounds(1_500, 125_000)
"""Decisions of each filter: 12,000 in `make test`, a million in the night."""
LIFE: Final = 60
CLOSE: Final = Fraction(1, 10**9)
"""Nearer to a limit than this part of it, an amount rounded outward may be on either side."""
ATOMS: Final = (
    *("pure:0.01", "pure:0.03", "pure:0.1", "pure:0.25", "pure:0.5", "pure:1", "pure:1.7"),
    *("laplace:scale=3,sensitivity=1", "laplace:scale=7,sensitivity=1"),
    *("laplace:scale=97,sensitivity=2", "laplace:scale=30,sensitivity=1"),
    *("approximate:epsilon=0.1,delta=3e-7", "approximate:epsilon=0,delta=4e-7"),
    *("approximate:epsilon=0.02,delta=1e-8", "probabilistic:epsilon=0.05,delta=1e-7"),
    *("randomized_response:epsilon=0.2,delta=1e-7", "approximate:epsilon=0,delta=0"),
    *("ex_post:0.15", "ex_post:epsilon=0.05,delta=4e-8", "bounded_range:0.1"),
)
WITHOUT: Final = (
    *("gaussian:sigma=60,sensitivity=1", "gaussian:sigma=7,sensitivity=1", "gdp:0.03"),
    *("zcdp:0.0004", "approximate_zcdp:rho=0.001,delta=1e-7"),
)
Amounts = dict[str, Any]


class Model:
    """What a policy grants, by sums without any rounding.

    Attributes:
        own: what is spent of each of the filter's sums.
        state: of gdp_residue what the ledger says of it: its costs have no finite form.
    """

    def __init__(self, policy: Policy, capacity: Amounts) -> None:
        self.body: dict[str, Any] = msgspec.to_builtins(resolve(policy))
        self.names = rules.sums(self.body)
        self.own: Amounts = dict.fromkeys(self.names, Fraction(0))
        self.maximum = {name: Fraction(int(capacity[name]), UNIT) for name in self.names}
        for name, (_, high) in zip(self.names, rules.capacities(self.body), strict=True):
            assert self.maximum[name] * UNIT <= high  # no budget is above the exact one
        self.epsilon = self.delta = Fraction(0)
        more = Fraction(self.body.get("epsilon_ex_post", 0))
        self.most_epsilon = Fraction(self.body["epsilon"]) + more
        self.deltas = [name for name in self.names if name.endswith("delta")]
        self.most_delta = rules.deltas(self.body)[1]
        self.ended = False
        self.without = 0

    def cost(self, claim: dict[str, Any], name: str) -> Any:
        total: Any = Fraction(0)
        for atom, times in atoms(claim):
            each = exact(atom, name)
            if each == float("inf"):
                return None
            total += fraction(each) * times
        return total

    def by_filter(self, claim: dict[str, Any], more: Fraction) -> bool:
        """Tell whether the filter's rule holds with its sums grown by a part `more`."""
        if self.ended:
            return False
        name = self.body["filter"]
        if name == "gdp_residue":
            room = int((self.maximum["mu_squared"] - self.own["mu_squared"]) * UNIT)
            found = charge(list(atoms(claim)), room)
            delta = self.own["delta"] + self.cost(claim, "delta")
            return found is not None and delta <= self.maximum["delta"]
        after = {each: self._after(claim, each) for each in self.names}
        within = [
            total is not None and total * (1 + more) <= self.maximum[each]
            if each not in self.deltas
            else total is not None and total <= self.maximum[each]
            for each, total in after.items()
        ]
        if name == "renyi_weighted":
            return any(within)
        if name == "advanced_2016" and all(within):
            v, mean = (real(after[each] * (1 + more)) for each in self.names[:2])
            e, d = real(self.body["epsilon"]), real(self.body["delta"])
            scale = e**2 / (mp.mpf("28.04") * mp.log(1 / d))
            root = 2 * (v + scale) * (1 + mp.log(v / scale + 1) / 2) * mp.log(2 / d)
            return bool(mean + mp.sqrt(root) <= e)
        return all(within)

    def _after(self, claim: dict[str, Any], name: str) -> Any:
        cost = self.cost(claim, name)
        return None if cost is None or self.own[name] is None else self.own[name] + cost

    def by_basic(self, claim: dict[str, Any]) -> bool:
        epsilon = self.cost(claim, "epsilon")
        if epsilon is None or self.without or self.epsilon + epsilon > self.most_epsilon:
            return False
        if not self.deltas:
            return bool(self.delta + self.cost(claim, "delta") <= self.most_delta)
        return all(self._after(claim, name) <= self.maximum[name] for name in self.deltas)

    def take(self, claim: dict[str, Any], ledger: DatasetLedger) -> None:
        """Count a claim that was granted."""
        ends = not self.ended and bool(total(ledger, "filter_ended"))
        self.ended = self.ended or ends
        for name in self.names:
            if not self.ended or name in self.deltas:
                self.own[name] = self._after(claim, name)
        if "mu_squared" in self.own:
            self.own["mu_squared"] = Fraction(int(total(ledger, "mu_squared")), UNIT)
        epsilon = self.cost(claim, "epsilon")
        if epsilon is None:
            self.without += 1
        else:
            self.epsilon += epsilon
        if not self.deltas:
            self.delta += self.cost(claim, "delta")


def total(ledger: DatasetLedger, name: str) -> Any:
    return ledger.totals[ledger.plan.sums.index(name)]


def any_policy(name: str, chance: random.Random) -> Policy:
    epsilon = chance.choice(["1", "3"] if name.startswith("renyi") else ["0.4", "1", "3"])
    policy = msgspec.structs.replace(POLICIES[name], beside="basic", epsilon=epsilon)
    if name == "renyi_weighted":  # an order of 2,000 is basic composition itself, or nearly
        policy = msgspec.structs.replace(policy, orders=("18", "40.5"), weights=("0.5", "0.5"))
    if chance.random() < 0.4:
        cap = chance.choice(["0.05", "0.1", "0.3", "0.99"])
        policy = msgspec.structs.replace(policy, most_per_request=cap)
    return msgspec.structs.replace(policy, odometers=())


def any_claim(chance: random.Random, bounded: float) -> str:
    pool = ATOMS if chance.random() < bounded else WITHOUT
    draw = chance.random()
    if draw < 0.7:
        return chance.choice(pool)
    if draw < 0.85:
        return f"{chance.choice([2, 3, 7, 40])}*{chance.choice(pool)}"
    other = chance.choice(ATOMS if bounded > 0.9 else (*ATOMS, *WITHOUT))
    return f"{chance.choice(pool)}+{other}"


def ask(ledger: DatasetLedger, claim: str) -> tuple[DatasetLedger, Verdict]:
    return adjudicate(ledger, check_claim(parse_claim(claim)), "person", "add_remove", 1)


def check(model: Model, before: DatasetLedger, text: str, chance: random.Random) -> DatasetLedger:
    """Decide a claim, compare with the model, and return the ledger after it."""
    claim = msgspec.to_builtins(parse_claim(text))
    after, verdict = ask(before, text)
    reported = model.body, text, verdict
    surely, maybe = model.by_filter(claim, CLOSE), model.by_filter(claim, Fraction(0))
    basic, filter_name = model.by_basic(claim), model.body["filter"]
    if verdict.outcome is Outcome.GRANTED:
        ended = total(after, "filter_ended") != total(before, "filter_ended")
        assert (not ended and maybe) or basic, reported
        assert not (ended and surely), reported
        assert verdict.ends == (filter_name if ended else None), reported
        if model.ended:
            same = [n for n in model.names if n not in model.deltas]
            assert all(total(before, n) == total(after, n) for n in same), reported
        model.take(claim, after)
        assert total(after, "without_epsilon") == model.without * UNIT
        assert total(after, "epsilon") >= model.epsilon * UNIT
    elif verdict.reason is Reason.EXHAUSTED:
        assert not surely, reported
        assert not basic, reported
    assert before.spent_ratio <= after.spent_ratio <= 1, reported
    assert after.plan.kind.holds(after.plan.capacity, after.spent), reported
    check_left(model, after)
    if verdict.fits is not None:
        _, next_verdict = ask(before, verdict.fits)
        assert next_verdict.outcome is Outcome.GRANTED, reported
        assert next_verdict.ends == verdict.ends, reported
    if after.spent_ratio == 1 and filter_name != "split":
        for tiny in ("pure:1e-9", "gaussian:sigma=1e9,sensitivity=1"):
            assert ask(after, tiny)[1].outcome is Outcome.REFUSED, (*reported, tiny)
    if chance.random() < 0.02:
        check_preview(before, text, verdict)
    return after


def check_left(model: Model, ledger: DatasetLedger) -> None:
    kind, plan = ledger.plan.kind, ledger.plan
    room_of = map(whole_down, kind.remaining(plan.capacity, ledger.spent))
    left = dict(zip(kind.sums, room_of, strict=True))
    room = max(Fraction(0), model.most_epsilon - model.epsilon) * UNIT
    assert left["epsilon"] <= room
    if model.without:
        assert left["epsilon"] == 0
    else:
        assert left["epsilon"] >= room - 1
    own = [name for name in model.names if name not in model.deltas]
    assert not model.ended or not any(left[name] for name in own)
    assert all(each >= 0 for each in left.values())


def check_preview(before: DatasetLedger, text: str, verdict: Verdict) -> None:
    """A preview of the view tells what was decided, and `more` of it are granted, not one more."""
    asked = PreviewRequest(parse_claim(text), "person", "add_remove")
    shown = preview(view_of_ledger(before), asked)
    assert shown.granted == (verdict.outcome is Outcome.GRANTED)
    reported = shown.reason, shown.cost, shown.fits, shown.ends
    assert reported == (verdict.reason, verdict.cost, verdict.fits, verdict.ends)
    if not shown.granted or shown.more is None or shown.more > 30:
        return
    ledger, _ = ask(before, text)
    for _ in range(shown.more):
        ledger, again = ask(ledger, text)
        assert again.outcome is Outcome.GRANTED
    is_batch = "*" in text or "+" in text
    if not (is_batch and before.plan.policy.filter == "gdp_residue"):
        assert ask(ledger, text)[1].outcome is Outcome.REFUSED


@pytest.mark.parametrize("name", TAKERS)
def test_no_decision_is_another_than_the_models(name: str) -> None:
    chance = random.Random(f"beside {name}")
    done, ended, noisy = 0, 0, 0
    while done < EACH:
        policy = any_policy(name, chance)
        plan = open_plan(resolve(policy))
        ledger = DatasetLedger.new("census", plan, 0)
        model = Model(policy, dict(zip(plan.kind.sums, plan.capacity, strict=True)))
        bounded = chance.choice([0.5, 0.95, 1, 1])
        for _ in range(LIFE):
            ledger = check(model, ledger, any_claim(chance, bounded), chance)
        done += LIFE
        ended, noisy = ended + model.ended, noisy + bool(model.without)
    assert ended > EACH / LIFE / 20
    assert noisy > EACH / LIFE / 20 or name == "advanced_2016"


@pytest.mark.parametrize("name", TAKERS)
def test_rows_refold_and_audit_agree_at_any_point(name: str) -> None:
    chance = random.Random(f"rows {name}")
    for _ in range(rounds(2, 40)):
        world = World(batch=chance.choice([1, 5]))
        policy = msgspec.structs.replace(any_policy(name, chance), odometers=None)
        fields = msgspec.to_builtins(policy)
        world.open(**fields)
        if chance.random() < 0.5:
            world.amend(policy={**fields, "epsilon": "0.3"})
            world.amend(policy={n: v for n, v in fields.items() if n != "beside"})
        bounded = chance.choice([0.5, 0.95, 1])
        for number in range(40):
            world.ask(any_claim(chance, bounded))
            if number == 20:
                world.amend(most_per_request="0.5", alert_at=["0.3", "0.9"])
            if number % 13 == 12:
                assert state_rows(world.replayed()) == world.rows()
        assert state_rows(world.replayed()) == world.rows()
        assert audit(world.log, genesis=world.genesis).ok
