"""`accountant log export` of chosen decisions of a log on Kafka."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, request, working
from tests.kafka.test_clock_reset import run

DATASETS = ["ds-0", "ds-1", "ds-2", "ds-3"]


async def test_chosen_decisions_are_those_of_the_whole_log(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2, skew_ms=1_000) as ledger:
        async with working(ledger):
            await ledger.open(*DATASETS)
            for _ in range(6):
                await ledger.send_all(request(DATASETS[i % 4]) for i in range(8))
                await ledger.settle()

        async def export(*options: str, code: int = 0) -> list[str]:
            done = await asyncio.to_thread(run, ledger, "log", "export", *options)
            assert done.returncode == code, done.stderr
            return [*done.stdout.splitlines(), *([done.stderr] if code else [])]

        whole = await export()
        rows = {line: json.loads(line) for line in whole}
        # One partition follows another, so the order by time is one in each partition only.
        by_time = sorted(row["decided_at"] for row in rows.values())
        since, until = by_time[len(by_time) // 3], by_time[2 * len(by_time) // 3]
        assert since < until
        between = [line for line, row in rows.items() if since <= row["decided_at"] < until]
        assert await export("--since", since, "--until", until) == between
        late = [line for line, row in rows.items() if row["decided_at"] >= since]
        assert await export("--since", since) == late
        assert await export("--until", since) == [line for line in whole if line not in late]
        of_one = [line for line, row in rows.items() if row.get("dataset") == "ds-2"]
        assert await export("--dataset", "ds-2") == of_one
        assert await export("--dataset", "ds-2", "--tail", "3") == of_one[-3:]
        last = await export("--tail", "5")
        assert last == [line for line in whole if line in last]
        assert len(last) == 5
        older = [row["decided_at"] for line, row in rows.items() if line not in last]
        assert min(rows[line]["decided_at"] for line in last) >= max(older)
        both = await export("--dataset", "ds-2", "--since", since, "--tail", "50")
        assert both == [line for line in of_one if line in late]

        (error,) = await export("--dataset", "ds-9", code=1)
        assert "this log has no dataset ds-9" in error
        (error,) = await export("--since", "2100-01-01", code=1)
        assert "no decision in this log matches --since 2100-01-01T" in error
        part = tmp_path / "part.jsonl"
        part.write_text("".join(f"{line}\n" for line in late))
        refused = await asyncio.to_thread(run, ledger, "log", "restore", str(part))
        assert refused.returncode == 1
        assert "Nothing was written" in refused.stderr
