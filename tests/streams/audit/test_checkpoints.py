"""Evidence that cannot be read is an error of its own, with what to add."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.audit.checkpoints import read_evidence
from streams.errors import InputInvalid


def test_a_file_without_receipts_is_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "receipts"
    file.write_text("no receipt\n")
    with pytest.raises(InputInvalid, match="receipts, line 1, is not a receipt"):
        read_evidence(None, None, [file])


def test_checkpoints_and_keys_need_each_other(tmp_path: Path) -> None:
    with pytest.raises(InputInvalid, match="--key needs --checkpoints") as keys:
        read_evidence(None, ["key"], None)
    assert keys.value.hint == "add --checkpoints DIRECTORY"
    with pytest.raises(InputInvalid, match="--checkpoints needs the public key"):
        read_evidence(str(tmp_path), None, None)
