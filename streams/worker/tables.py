"""What a worker shows: the ledger of each dataset, and who used it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from accountant.dataset_ledger import DatasetLedger
from accountant.partition import Partition
from accountant.views.counted_decisions import Run
from accountant.views.usage import Rows, Unit, UsageTable, Vacancies
from streams.service.live_views import CountedDecisions


class WorkerTables:
    """Two tables, by dataset, which follow the states of the partitions. It decides nothing.

    Args:
        ledgers: each dataset's.
        usage: by analyst, of the decisions that were taken.
        counts: of the decisions that this process has made.
        state: returns a partition as far as this process knows it, None if it does not.
        vacancies: for rows of `usage`.
    """

    def __init__(
        self,
        ledgers: MutableMapping[str, DatasetLedger],
        usage: MutableMapping[str, Rows],
        counts: CountedDecisions,
        state: Callable[[int], Partition | None],
        vacancies: Vacancies | None = None,
    ) -> None:
        self.ledgers = ledgers
        self.usage = usage
        self.counts = counts
        self._state = state
        self._usage_table = UsageTable(usage, vacancies)

    def take_ledger(self, partition: int, ledger: DatasetLedger) -> None:
        """Show a ledger of a partition's rows, or the one that is known by now."""
        state, name = self._state(partition), ledger.dataset
        self.ledgers[name] = ledger if state is None else state.ledgers.get(name, ledger)

    def take_run(self, partition: int, dataset: str, run: Run, *, own: int | None) -> None:
        """Show a dataset as its partition has it after a run, and count who asked.

        Args:
            own: number of the last decision before those of this process; None: it has made none.
        """
        state = self._state(partition)
        if state is None:
            ledger = self.ledgers.get(dataset)
        else:
            ledger = state.ledgers.get(dataset)
            if ledger is not None and ledger is not self.ledgers.get(dataset):
                self.ledgers[dataset] = ledger
            if own is not None:
                self.counts.count(state, [each for each in run if each.partition_sequence > own])
        if ledger is not None:
            self._usage_table.take(run, self.unit_of)

    def unit_of(self, dataset: str) -> Unit:
        """Return the unit of a dataset that is shown."""
        ledger = self.ledgers[dataset]
        return next(iter(ledger.plan.budget_wire)), ledger.generation
