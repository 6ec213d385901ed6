"""`accountant approval`: what waits is listed, answered, and shown by `watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streams.cli.printing.exit_codes import Exit
from tests.streams.cli.here import run_here

OPENING = (
    *("--filter", "basic", "--epsilon", "1", "--access", "anyone", "--most-per-request", "1"),
    *("--approve-above", "0.1", "--approve-within", "P3D", "--by", "olga"),
)


class Plans:
    """A ledger in a file with a dataset, of which more than a tenth waits."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self("dataset", "open", "plans", *OPENING)

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        done = run_here(self.directory, *arguments)
        assert done.code == code, (done.code, done.out, done.err)
        return done

    def ask(self, analyst: str = "ana", claim: str = "pure:0.3", code: int = Exit.PENDING) -> str:
        said = self("ask", "plans", claim, "--analyst", analyst, code=code)
        return " ".join((said.out + said.err).split())

    @property
    def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("approval", "list", "plans", "--json").rows
        return found


def test_what_waits_is_listed_and_answered(tmp_path: Path) -> None:
    plans = Plans(tmp_path)
    assert "no request on plans that you may see waits" in plans("approval", "list", "plans").out
    assert "must approve it until" in plans.ask()
    dry = plans("ask", "plans", "pure:0.3", "--analyst", "ana", "--dry-run", code=Exit.PENDING)
    assert "would wait for an owner's approval" in dry.out
    plans.ask("ben")
    first, second = plans.waiting
    assert (first["analyst"], first["claim"]) == ("ana", {"type": "pure", "epsilon": "0.3"})
    listed = plans("approval", "list", "plans").out
    assert "pure:0.3" in listed
    assert "30 % of" in listed
    assert "pure:0.3 waits for an approval until" in plans("mine", "--analyst", "ana").out
    assert "waits" not in plans("mine", "--analyst", "cora").out
    short = first["pending"].removeprefix("sha256:")[:12]
    granted = plans("approval", "approve", "plans", short, "--by", "olga")
    assert "granted" in granted.out
    denied = plans(
        *("approval", "deny", "plans", second["pending"].removeprefix("sha256:"), "--by", "olga"),
        *("--reason", "see table 4"),
    )
    assert "olga has denied the request of ben; nothing is charged.\n" in denied.out
    again = ("ask", "plans", "pure:0.3", "--analyst", "ben", "--id", second["request_id"])
    shown = " ".join(plans(*again, code=Exit.FAILED).out.split())
    assert "repeated: first decided refused (denied) at" in shown
    assert 'olga has denied the request of ben; nothing is charged. The reason: "see table' in shown
    plans("approval", "deny", "plans", second["pending"], "--by", "olga", code=Exit.FAILED)
    assert plans.waiting == []
    assert "30 %" in plans("dataset", "show", "plans").out


def test_watch_shows_what_waits_once(tmp_path: Path) -> None:
    plans = Plans(tmp_path)
    plans.ask()
    (alert,) = plans("watch", "--once", "--alerts", "--json").rows
    (waiting,) = plans.waiting
    assert alert["alert_id"] == f"plans/1/pending/{waiting['sequence']}"
    assert (alert["approval"], alert["analyst"]) == ("pending", "ana")
    assert alert["until"] == waiting["until"]
    said = " ".join(plans("watch", "--once", "--alerts").out.split())
    assert "a request of ana on plans waits until" in said
    plans("approval", "approve", "plans", waiting["pending"], "--by", "olga")
    assert plans("watch", "--once", "--alerts", "--json").rows == []


def test_an_approval_above_the_cap_is_said_to_be_idle(tmp_path: Path) -> None:
    idle = "above 20 % of the budget never waits for an approval: above 10 % it is refused"
    budget = ("--filter", "basic", "--epsilon", "1")
    preview = ("dataset", "open", "census", *budget, "--approve-above", "0.2")
    assert idle in " ".join(run_here(tmp_path, *preview, "--preview").out.split())
    opened = run_here(tmp_path, *preview)
    assert (opened.code, idle in opened.err) == (0, True)
    lower = run_here(tmp_path, "dataset", "amend", "census", "--approve-above", "0.05")
    assert "never waits" not in lower.err
    again = run_here(tmp_path, "dataset", "amend", "census", "--approve-above", "0.1")
    assert "note: a request above 10 % of the budget never waits" in again.err
    off = run_here(tmp_path, "dataset", "amend", "census", "--approve-above", "1")
    assert "never waits" not in off.err
