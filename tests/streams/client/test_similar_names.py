"""A misspelt name opens no second budget, and names nothing that the caller may not see."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from streams.client import Accountant, AsyncAccountant, SimilarDataset
from tests.streams.auth.roles_server import RolesServer

POLICY = {"filter": "basic", "epsilon": "1"}
PAYROLL = "payroll"


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/ledger.db"
    with Accountant(found) as ledger:
        assert ledger.as_owner("olga").open(PAYROLL, POLICY).outcome == "opened"
    return found


@pytest.mark.parametrize(
    "name", ["Payroll", "pay-roll", "payrol", "payrolll", "parroll", "apyroll"]
)
def test_a_misspelt_name_is_refused_and_opens_nothing(url: str, name: str) -> None:
    with Accountant(url) as ledger:
        with pytest.raises(
            SimilarDataset, match=f"{name} was not opened: payroll is open"
        ) as error:
            ledger.as_owner("olga").open(name, POLICY)
        assert error.value.similar == PAYROLL
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
        assert [view.dataset for view in ledger.datasets()] == [PAYROLL]


async def test_the_asynchronous_client_refuses_a_misspelt_name(url: str) -> None:
    async with AsyncAccountant(url) as ledger:
        with pytest.raises(SimilarDataset):
            await ledger.as_owner("olga").open("Payroll", POLICY)
        assert len(await ledger.datasets()) == 1


def test_a_name_that_is_meant_is_opened(url: str) -> None:
    with Accountant(url) as ledger:
        assert ledger.as_owner("olga").open("Payroll", POLICY, new=True).outcome == "opened"
        assert ledger.as_owner("olga").open("pay-roll", POLICY, new=True).outcome == "opened"


def test_a_program_opens_the_same_names_at_each_start(url: str) -> None:
    with Accountant(url) as ledger:
        assert ledger.as_owner("olga").open("Payroll", POLICY, new=True).outcome == "opened"
        for name in (PAYROLL, "Payroll"):  # each is as similar to the other as before
            assert ledger.as_owner("olga").open(name, POLICY).reason == "already_opened"


@pytest.mark.parametrize("name", ["census", "payroll-2026", "payslips"])
def test_another_name_is_opened_without_a_question(url: str, name: str) -> None:
    with Accountant(url) as ledger:
        assert ledger.as_owner("olga").open(name, POLICY).outcome == "opened"


def test_names_of_two_years_are_two_names(url: str) -> None:
    with Accountant(url) as ledger:
        for name in ("payroll-2026", "payroll-2027"):
            assert ledger.as_owner("olga").open(name, POLICY).outcome == "opened"


def test_a_hidden_dataset_is_not_named(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga(PAYROLL, access="members")

        def client(name: str) -> Accountant:
            return Accountant(server.url, token=server.tokens[name], clock=server.clock)

        with client("root") as ledger, pytest.raises(SimilarDataset, match="payroll is open"):
            ledger.as_owner().open("Payroll", POLICY)
        with client("opie") as ledger:  # has no role on it
            assert ledger.as_owner().open("Payroll", POLICY).outcome == "opened"
