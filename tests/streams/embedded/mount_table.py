"""What Linux says is mounted, as a file of one's own, and mounts of one's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

STARTS = ()

_ESCAPES = str.maketrans({"\\": "\\134", " ": "\\040", "\t": "\\011"})


def mount_points(directory: Path, *mounts: tuple[str, str]) -> Path:
    """Return a table, made in a directory, of mounts by place and kind."""
    table = directory / "mountinfo"
    table.write_text(
        "".join(
            f"{number} 1 8:1 / {place.translate(_ESCAPES)} rw,relatime shared:1 - {kind} "
            "/dev/sda1 rw\n"
            for number, (place, kind) in enumerate(mounts, 22)
        )
    )
    return table


IN_OWN_MOUNTS: Final = ("unshare", "--user", "--map-root-user", "--mount")


def can_mount() -> bool:
    """Tell whether this machine lets a process have mounts of its own."""
    try:
        return subprocess.run([*IN_OWN_MOUNTS, "true"], check=False).returncode == 0
    except FileNotFoundError:
        return False
