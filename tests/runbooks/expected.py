"""What each block of the runbooks prints on a healthy ledger: what the text around it promises."""

from __future__ import annotations

import re
import subprocess
from typing import Final

from tests.runbooks.page import Block

STARTS = ()

_READY: Final = r"(?m)^https?://127\.0\.0\.1:\d+ is ready$"
_HEAD: Final = r"(?m)^partition \d+: \d+:sha256:[0-9a-f]{64}$"
_AUDIT: Final = r"(?m)^ok partition 0: .* decided again"
_SPENDER: Final = r"(?m)^  ana  .* 0\.01 "
_SAMPLE: Final = r"=> [\d.e+-]+ @\["
_RESERVED: Final = r"(?m) ana .* join .* reserved "
_DATASET: Final = r"(?m)^statistics\.\S+$"

EXPECTED: Final[dict[str, tuple[str, ...]]] = {
    "Before-1": (_READY, _HEAD),
    "Before-2": (r"(?m)^[0-9a-f-]{36}$",),
    "Stop-0": (r"(?m)^paused$", r"(?m)^state .* paused: "),
    "Stop-1": (r"(?m)^paused$",),
    "Stop-2": (r"(?m)^resumed$",),
    "PrivacyBudgetHalfUsed-0": (r"(?m)^left +99 % of the budget", "largest grants", _SPENDER),
    "PrivacyBudgetLow-0": (r"laplace .*scale", "The claims for `accountant ask`"),
    "PrivacyBudgetExhausted-0": (r"(?m)^closed$",),
    "PrivacyBudgetBurnFast-0": (_SPENDER, r"(?m)^  dashboard  .* 0\.01 "),
    "PrivacyBudgetBurnFast-1": (_SAMPLE,),
    "PrivacyBudgetBurnSlow-0": (_SPENDER,),
    "PrivacyBudgetBurnSteady-0": (_DATASET, _SAMPLE),
    "PrivacyBudgetExhaustionPredicted-0": (_SPENDER,),
    "PrivacyRefusalRatioHigh-0": (r"(?m)^  exhausted  .* 1 ",),
    "PrivacyDatasetPaused-0": (r'"outcome":"paused".*"reason":"a loop spends the budget"',),
    "PrivacyTeamShareAlmostUsed-0": (r'name="methods"', _SAMPLE, _SPENDER),
    "PrivacyPaceUsedUp-0": (r'name="methods"', _SAMPLE, _SPENDER),
    "PrivacyDatasetSuspended-0": (
        r"(?m)^state .* suspended: ",
        r'"reason":"beyond_maximum".*"shown":"5","grant":"sha256:[0-9a-f]{64}"',
    ),
    "PrivacyGuaranteeVoid-0": (
        r"(?m)^guarantee +none: a release made elsewhere did not fit",
        r'"outcome":"recorded".*"guarantee":"void"',
    ),
    "PrivacyReservationExpiring-0": (r"=> [67]\d{3}\.?\d* @\[", _RESERVED),
    "PrivacyReservationNotSettled-0": (r"=> [67]\d{3}\.?\d* @\[", r"(?m) ana .* begun "),
    "PrivacyReservationLapsed-0": (r'state="lapsed"\} => 0 @', _RESERVED),
    "PrivacyReservationsNearLimit-0": (
        r'state="reserved"\} => 1 @',
        r'"analyst":"ana".*"purpose":"join"',
    ),
    "PrivacySpentDecreased-0": (_AUDIT, r"(?m)^ +head \d+:sha256:"),
    "PrivacyDatasetExportedTwice-0": (r"instance=", _SAMPLE, _READY),
    "PrivacyPartitionHalted-0": (_READY, _AUDIT),
    "PrivacyInternalError-0": (),
    "PrivacyAdministratorRecord-0": (r"(?m)^administrator .*: root made aud auditor on ",),
    "PrivacyPartitionUnowned-0": (r"privacy_partition_ready\{.*\} => 1 @", _READY),
    "PrivacyPartitionUnowned-1": ("topics are correct", "operator: User:operator"),
    "PrivacyProcessorStalled-0": (_SAMPLE, _READY),
    "PrivacyLagHigh-0": (r'partition="0"', _SAMPLE),
    "PrivacyFencingStorm-0": (),
    "PrivacyDeadLetters-0": (),
    "PrivacyAlertGivenUp-0": (r"dataset .*guarantee",),
    "PrivacyCuratorEnded-0": (_READY, r"up\{.*\} => 1 @"),
    "PrivacyAnswersNotStored-0": (_READY, r"up\{.*\} => 1 @"),
    "PrivacyQuestionUnanswered-0": (r"no question on .* waits",),
    "PrivacyQuestionUnanswered-1": (r"up\{.*\} => 1 @", _READY),
    "PrivacyCuratorAbsent-0": (_READY, r"up\{.*\} => 1 @"),
    "PrivacyAnswersFailed-0": (r"up\{.*\} => 1 @",),
    "PrivacyQuestionClaimDiffers-0": (_AUDIT, r"rules="),
    "PrivacySourceNamedByAnotherDataset-0": (r"up\{.*\} => 1 @", r'"outcome":"opened"'),
    "PrivacySourceClosed-0": (r"up\{.*\} => 1 @",),
    "PrivacyCheckpointPlaceLate-0": (_READY,),
    "PrivacyCheckpointsNotStored-0": (_READY, _SAMPLE),
    "PrivacyCheckpointKeyDiffers-0": (_READY,),
    "PrivacyLedgerReplaced-0": (_READY, r"(?m)^ +ledger [0-9a-f]{32}$"),
    "PrivacyUsageIndexTrouble-0": (_READY,),
    "PrivacyIdTableNearlyFull-0": (r'partition="0"', _SAMPLE),
    "PrivacyAuthenticationAway-0": (_READY,),
    "PrivacyAccountantDown-0": (_READY,),
    "PrivacyAccountantAbsent-0": (_READY, r"up\{.*\} => 1 @"),
    "PrivacyGatewayAbsent-0": (_READY, r"up\{.*\} => 1 @"),
}


def check(
    block: Block, done: subprocess.CompletedProcess[str], *, authenticates: bool = True
) -> None:
    """Check a block's exit code, and what it printed."""
    shown = f"{block.text}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, shown
    for expected in EXPECTED[block.name]:
        assert re.search(expected, done.stdout), f"{expected} is not in\n{shown}"
    if block.name == "Before-1":
        who = f"signed in as {block.reader}" if authenticates else "you are not signed in"
        assert who in done.stdout, shown
