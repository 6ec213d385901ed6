"""verify.py: Ed25519, costs, and every kind of record that a log may have."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streams.evidence import verify
from tests.golden.replayed_logs import LOGS, played
from tests.nightly import NIGHTLY, rounds

LONG = {"ids", "fractions"}
KNOWN = "pure|laplace|bounded_range|zcdp|gdp|gaussian|brownian"
# RFC 8032, section 7.1: public key, text, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("public", "text", "signature"), VECTORS)
def test_the_vectors_of_the_rfc(public: str, text: str, signature: str) -> None:
    key, signed, value = map(bytes.fromhex, (public, text, signature))
    assert verify.is_signed(key, signed, value)
    assert not verify.is_signed(key, signed + b"x", value)
    other_s = (int.from_bytes(value[32:], "little") + verify.L).to_bytes(32, "little")
    assert not verify.is_signed(key, signed, value[:32] + other_s)
    assert not verify.is_signed(key, signed, value[:-1])


# Of key 36, eight times its point begins with the byte 1, as the encoding of 0 does.
@pytest.mark.parametrize("number", [*range(rounds(8, 500)), 36])
def test_signatures_of_the_products_library(number: int) -> None:
    seed = hashlib.sha256(str(number).encode()).digest()
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public, text = private.public_key().public_bytes_raw(), seed * (number % 9)
    signature = private.sign(text)
    assert verify.is_signed(public, text, signature)
    for place in (0, 31, 32, 63):
        flipped = bytearray(signature)
        flipped[place] ^= 1 << (number % 8)
        assert not verify.is_signed(public, text, bytes(flipped))


@pytest.mark.parametrize(
    "public",
    [
        (1).to_bytes(32, "little"),  # of order 1
        (verify.P - 1).to_bytes(32, "little"),  # of order 2
        (verify.P + 1).to_bytes(32, "little"),  # y is not below p
        (1 | 1 << 255).to_bytes(32, "little"),  # x is 0, and has a sign
        (2).to_bytes(32, "little"),  # on no curve
    ],
)
def test_bytes_that_are_no_key_have_signed_nothing(public: bytes) -> None:
    signature = (1).to_bytes(32, "little") + bytes(32)
    assert not verify.is_signed(public, b"text", signature)


@pytest.mark.parametrize("name", [name for name in LOGS if NIGHTLY or name not in LONG])
def test_every_golden_log_is_right(name: str) -> None:
    log = verify.Log()
    for value in played(name).log:
        log.take(value)
    log.end()
    assert log.datasets
    costs = re.compile(rf"cost of a claim ({KNOWN}) under (basic|zcdp|zcdp_tight)")
    assert not [what for what, n in log.needs.items() if n and costs.fullmatch(what)]


def is_cost(claim: verify.Record, charged: Fraction) -> bool:
    return verify.is_cost("claim", "rho", verify.costs("rho", claim), charged)


def test_a_cost_is_exact_or_just_above() -> None:
    third = {"type": "gaussian", "sigma": "3", "sensitivity": "1"}
    exact = Fraction(verify.UNIT, 18)
    assert is_cost(third, exact)
    with pytest.raises(verify.Wrong, match="costs"):
        is_cost(third, exact - Fraction(1, 10**9))
    with pytest.raises(verify.Wrong, match="costs"):
        is_cost(third, exact + 1)
    series = verify.cost("rho", {"type": "pure", "epsilon": "0.5"})
    assert series is not None
    rounded = Fraction(-(-series * verify.UNIT // 1))
    assert is_cost({"type": "pure", "epsilon": "0.5"}, rounded)
    with pytest.raises(verify.Wrong, match="costs"):
        is_cost({"type": "pure", "epsilon": "0.5"}, rounded - 2)
    assert not is_cost({"type": "approximate", "epsilon": "1", "delta": "1e-6"}, rounded)


def test_it_imports_the_standard_library_alone() -> None:
    tree = ast.parse(Path(verify.__file__).read_text())
    found = {
        (each.module if isinstance(each, ast.ImportFrom) else each.names[0].name) or ""
        for each in ast.walk(tree)
        if isinstance(each, ast.Import | ast.ImportFrom)
    }
    assert {name.split(".")[0] for name in found} <= sys.stdlib_module_names


def test_one_of_a_kind_is_no_plural(tmp_path: Path) -> None:
    (tmp_path / "datasets.jsonl").write_bytes(b"")
    found = verify.check_datasets(tmp_path, {"chained": True}, verify.Log())
    assert found == "0 datasets are compared with the log"
    assert verify.counted(1, "dataset is", "datasets are") == "1 dataset is"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"spent":{"epsilon":"2"', '"spent":{"epsilon":"1"', "lifetime.spent.epsilon"),
        ('"spent":{"epsilon":"2"', '"spent":{"epsilon":"3"', "lifetime.spent.epsilon"),
        ('"lifetime":{"epsilon":"3"', '"lifetime":{"epsilon":"9"', "lifetime"),
        ('"first":"census"', '"first":"alone"', "lifetime"),
        ('"generation":2', '"generation":1', "generation"),
    ],
)
def test_a_generation_is_charged_to_its_lifetime(old: str, new: str, why: str) -> None:
    log = verify.Log()
    values = iter(played("renewals").log)
    for value in values:
        if b'"outcome":"renewed"' in value:
            break
        log.take(value)
    forged = value.decode().replace(old, new, 1)
    assert forged != value.decode()
    with pytest.raises(verify.Wrong, match=f"^{re.escape(why)}"):
        log.decision(json.loads(forged), "")


def test_no_dataset_is_renewed_twice() -> None:
    log = verify.Log()
    for value in played("renewals").log:
        log.take(value)
        if b'"outcome":"renewed"' in value:
            break
    again = json.loads(value)
    again["parts"][0]["sequence"] += 1
    with pytest.raises(verify.Wrong, match="second renewal of census"):
        log.decision(again, "")


@pytest.mark.parametrize(
    ("outcome", "old", "new", "why"),
    [
        ("opened", '"spent":{"epsilon":"2"', '"spent":{"epsilon":"1"', "lifetime.spent.epsilon"),
        ("opened", '"epsilon":"4","delta":"1e-5"', '"epsilon":"9","delta":"1e-5"', "lifetime"),
        ("opened", ',"lifetime":{', ',"other":{', "lifetime"),
        ("renewed", '"spent":{"epsilon":"3"', '"spent":{"epsilon":"2"', "lifetime.spent.epsilon"),
    ],
    ids=["spent", "budget", "field", "renewal"],
)
def test_a_dataset_is_charged_to_the_lifetime_of_its_population(
    outcome: str, old: str, new: str, why: str
) -> None:
    log = verify.Log()
    for value in played("populations").log:
        record = json.loads(value)
        if record["outcome"] == outcome and b'"spent":{"epsilon":"1"' not in value:
            break
        log.take(value)
    forged = value.decode().replace(old, new, 1)
    assert forged != value.decode()
    with pytest.raises(verify.Wrong, match=f"^{re.escape(why)}"):
        log.decision(json.loads(forged), "")


def test_lifetimes_of_populations_are_added_up_in_a_whole_log() -> None:
    log = verify.Log()
    for value in played("populations").log:
        log.take(value)
    assert "lifetimes of which not all datasets are here" not in log.needs


def test_a_lifetime_of_datasets_that_are_not_here_is_not_added_up() -> None:
    log = verify.Log()
    for value in played("populations").log:
        record = json.loads(value)
        if record.get("dataset") == "costs" and "sequence" in record:
            log.decision(record, "")
    assert log.needs["lifetimes of which not all datasets are here"] == 1


def test_no_lifetime_is_fixed_for_a_population_that_has_datasets() -> None:
    log = verify.Log()
    values = iter(played("populations").log)
    for value in values:
        record = json.loads(value)
        log.take(value)
        if record.get("dataset") == "costs" and record["outcome"] == "opened":
            break
    record["dataset"] = record["request"]["dataset"] = "late"
    record["request"]["lifetime"] = {"epsilon": "4", "delta": "1e-5", "shared": True}
    with pytest.raises(verify.Wrong, match="earlier datasets of the population"):
        log.decision(record, "")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (',"population":"people"},"budget"', '},"budget"', "policy.population"),
        ('"first":"people"', '"first":"ghost"', "lifetime"),
    ],
)
def test_a_dataset_does_not_leave_its_population(old: str, new: str, why: str) -> None:
    log = verify.Log()
    for value in played("populations").log:
        if b'"outcome":"opened","dataset":"costs"' in value:
            break
        log.take(value)
    text = value.decode()
    start = text.index(',"lifetime":')
    forged = (text[:start] + "}" if why != "lifetime" else text).replace(old, new)
    assert old in text
    with pytest.raises(verify.Wrong, match=f"^{re.escape(why)}"):
        log.decision(json.loads(forged), "")


def test_a_lifetime_that_nobody_has_fixed_is_noticed() -> None:
    log = verify.Log()
    first, *_ = played("populations").log
    log.take(first)
    lifetime = {"epsilon": "4", "delta": "1e-5", "shared": True, "first": "people"}
    part = json.loads(played("populations").log[1])
    part["request"].pop("lifetime")
    part["lifetime"] = lifetime | {"spent": {"epsilon": "1", "delta": "0.000001"}}
    with pytest.raises(verify.Wrong, match=r"^lifetime"):
        log.decision(part, "")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"by":"olga"', '"by":"ana"', "ana approves their own request"),
        ('"decided_at":"2026-11-21', '"decided_at":"2026-11-23', "an answer after the deadline"),
        ('"purpose":"table 4"', '"purpose":"table 5"', "request that waited.purpose"),
        ('"until":"2026-11-23', '"until":"2026-12-23', "pending.until"),
        ('"type":"approve"', '"type":"deny"', "outcome of a denial"),
        (',"pending":{', ',"other":{', "sha256:0000.* does not wait"),
        (',"approval":{', ',"other":{', "approval"),
    ],
)
def test_an_approval_is_one_of_a_request_that_waits(old: str, new: str, why: str) -> None:
    log, value = until_approved()
    forged = value.decode().replace(old, new)
    assert forged != value.decode()
    record = json.loads(forged)
    if "pending" not in record:
        record["pending"] = {**record["other"], "request": "sha256:" + "0" * 64}
    if "approval" not in record:
        del record["pending"]
        why = "a grant above 0.1 of the budget, which no owner approved"
    with pytest.raises(verify.Wrong, match=f"^{why}"):
        log.decision(record, "")


def test_a_request_is_approved_once() -> None:
    log, value = until_approved()
    log.take(value)
    with pytest.raises(verify.Wrong, match="does not wait"):
        log.decision(json.loads(value), "")


def test_a_reset_ends_what_waits() -> None:
    log, value = until_approved()
    hashes = log.hashes[0]
    reset = {
        "type": "decision",
        "version": 2,
        "rules": 1,
        "outcome": "clock_reset",
        "note": "ahead",
    }
    log.decision(reset, hashes[-1])
    with pytest.raises(verify.Wrong, match="does not wait"):
        log.decision(json.loads(value), "")


def test_a_request_that_waits_is_charged_nothing() -> None:
    log = verify.Log()
    for value in played("approvals").log:
        if b'"outcome":"pending"' in value:
            break
        log.take(value)
    record = json.loads(value)
    record["totals"]["epsilon"], record["left"]["epsilon"] = "0.4", "0.6"
    with pytest.raises(verify.Wrong, match="growth of totals of census"):
        log.decision(record, "")


def until_approved() -> tuple[verify.Log, bytes]:
    """Return what is known before an approval of the golden log, and the approval."""
    log = verify.Log()
    for value in played("approvals").log:
        if b'"type":"approve"' in value and b'"outcome":"granted"' in value:
            break
        log.take(value)
    return log, value
