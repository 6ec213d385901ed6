"""The pages of records name every field, and their examples are sound records."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import msgspec

from accountant.claims.claims import Claim
from accountant.filters import FILTERS
from accountant.policy import Policy, resolve
from accountant.records import Decision
from accountant.records.inputs import Source, check
from accountant.records.limit_records import (
    LimitRecord,
    LimitRemaining,
    LimitUpdate,
    RuleRow,
    ScopeRow,
)
from accountant.records.members import MemberRow
from accountant.records.operator_records import KeyChange, Rollback, Seal
from accountant.records.previews import check_preview
from accountant.records.records import First, Genesis
from accountant.views.datasets import Alert, DatasetView
from accountant.views.joint import JointGuarantee
from accountant.views.limit_views import PeriodLimitView, ShareView
from accountant.views.period_report import PeriodReport, ReportRow
from accountant.views.usage import UsageRow
from accountant.views.why.forecast import Forecast
from accountant.views.why.report import LargestGrant, Why

OPENS = ("docs/reference/records/*",)

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "records"
NAMES = sorted(path.stem for path in PAGES.glob("*.md"))
LONGEST = 1_500

# What a page names itself; `make reference` makes the other fields of a page, or fails.
STRUCTS = {
    "request": [],
    "preview": [],
    "admin": [],
    "approvals": [],
    "outside": [],
    "asks": [],
    "member": [],
    "limits": [PeriodLimitView, ShareView],
    "policy": [Policy],
    "decision": [
        *[Decision, First, Genesis, Seal, Rollback, KeyChange, LimitRecord],
        *[LimitUpdate, LimitRemaining],
    ],
    "alert": [Alert],
    "dataset": [JointGuarantee, UsageRow],
    "why": [Forecast, LargestGrant],
    "report": [PeriodReport, ReportRow],
    "dead-letter": [],
    "state": [RuleRow],
}
# Said by every record, or under another name: the key of usage has its own.
ELSEWHERE = {"version", "request_id", "dataset", "by", "key"}


@cache
def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def examples(name: str) -> list[bytes]:
    """Return the JSON objects of a page's examples."""
    blocks = re.findall(r"^```json\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)
    found = []
    for block in blocks:
        decoder, rest = json.JSONDecoder(), block.strip()
        while rest:
            _, end = decoder.raw_decode(rest)
            found.append(rest[:end].encode())
            rest = rest[end:].strip()
    return found


def test_every_page_is_listed_and_has_its_structs():
    listed = re.findall(r"\(records/([a-z-]+)\.md\)", (PAGES.parent / "records.md").read_text())
    assert sorted(listed) == NAMES == sorted(STRUCTS)


def test_every_field_is_described():
    missing = [
        f"{name}.md: {struct.__name__}.{field}"
        for name, structs in STRUCTS.items()
        for struct in structs
        for field in struct.__struct_encode_fields__
        if f"`{field}`" not in page(name) and field not in ELSEWHERE
    ]
    assert not missing, "\n".join(missing)


def test_every_page_has_an_example_and_is_short():
    for name in NAMES:
        assert examples(name) or "Example:" in page(name), f"{name}.md has no example"
        words = len(page(name).split())
        assert words <= LONGEST, f"{name}.md has {words} words"


def test_examples_of_inputs_pass_the_checks_of_the_ledger():
    for name in ("request", "admin", "member", "limits"):
        source: Source = "requests" if name == "request" else "admin"
        assert examples(name), name
        for body in examples(name):
            check(source, body)


def test_the_other_examples_decode_as_their_types():
    (preview,) = examples("preview")
    check_preview(preview)
    (policy,) = examples("policy")
    resolve(msgspec.json.decode(policy, type=Policy))
    assert len([msgspec.json.decode(body, type=Alert) for body in examples("alert")]) == 5
    member, level = examples("state")
    msgspec.json.decode(member, type=MemberRow)
    msgspec.json.decode(level, type=ScopeRow)
    (decision,) = examples("decision")
    assert set(json.loads(decision)) <= {"type", *Decision.__struct_encode_fields__}
    for name, struct in (("dataset", DatasetView), ("why", Why)):
        assert set(json.loads(examples(name)[0])) <= set(struct.__struct_encode_fields__)


def test_every_claim_and_filter_has_its_row():
    for claim in Claim.__args__:
        assert f"\n| `{claim.__struct_config__.tag}` |" in page("request")
    for name in FILTERS:
        assert f"\n| `{name}` |" in page("policy")


def test_the_example_of_a_receiver_acts_once_on_an_alert():
    (code,) = re.findall(r"^```python\n(.*?)^```", page("alert"), re.DOTALL | re.MULTILINE)
    alert = msgspec.json.decode(examples("alert")[0], type=Alert)
    acted = []
    names = {"ids_stored_so_far": [], "alert": alert, "act": acted.append}
    exec(code, names)  # the page's own code
    assert acted == [alert]
    assert not names["seen"].is_new(alert)
