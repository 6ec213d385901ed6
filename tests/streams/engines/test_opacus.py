"""`ledger.measure` claims a training with Opacus as all of its steps, and it takes no others."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.records.outcomes import Outcome
from accountant.records.requests import MechanismRequest
from streams.client import Accountant, AsyncAccountant, NotGranted, ResultMissing
from streams.engines.dp_accounting import event_claim
from streams.engines.opacus import StepRefused, Training
from streams.engines.opacus_guard import random_generator
from tests.every_case import every_case
from tests.streams.clock import TestClock

pytestmark = [
    pytest.mark.opacus,
    # Warnings of Opacus and PyTorch about themselves.
    pytest.mark.filterwarnings("ignore:Secure RNG turned off", "ignore:Full backward hook"),
]

ROOT = Path(__file__).parents[3]
decode = msgspec.json.Decoder(MechanismRequest).decode
POLICY = {"filter": "renyi", "order": "6", "epsilon": "60", "delta": "1e-6", "unit": "patient"}


@pytest.fixture(autouse=True)
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch

    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "private" / "answers.db"))
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as client:
        client.as_owner("owner").open("census", POLICY, as_given=True)
        yield client


def private(
    *,
    rows: int = 64,
    batch: int = 16,
    noise: float = 2.0,
    norm: Any = 1.0,
    rate: float = 0.5,
    momentum: float = 0.0,
    loader: dict[str, Any] | None = None,
    **arguments: Any,
) -> SimpleNamespace:
    """Return a logistic model with what `make_private` makes of it."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    x = torch.randn(rows, 3)
    data = TensorDataset(x, (x[:, 0] > 0).float())
    plain = torch.nn.Linear(3, 1)
    original = torch.optim.SGD(plain.parameters(), lr=rate, momentum=momentum)
    engine = PrivacyEngine()
    model, optimizer, batches = engine.make_private(
        module=plain,
        optimizer=original,
        data_loader=DataLoader(data, batch_size=batch, **(loader or {})),
        noise_multiplier=noise,
        max_grad_norm=norm,
        **arguments,
    )
    return SimpleNamespace(
        model=model,
        optimizer=optimizer,
        loader=batches,
        original=original,
        engine=engine,
        data=data,
    )


def weights(of: SimpleNamespace) -> list[float]:
    return [float(each) for p in of.model.parameters() for each in p.detach().flatten()]


def gradients(of: SimpleNamespace, x: Any, y: Any) -> None:
    import torch

    loss = torch.nn.functional.binary_cross_entropy_with_logits
    loss(of.model(x).reshape(-1), y).backward()


def step(of: SimpleNamespace, x: Any, y: Any) -> None:
    of.optimizer.zero_grad()
    gradients(of, x, y)
    of.optimizer.step()


def loop(of: SimpleNamespace, epochs: int = 2) -> Callable[[], list[float]]:
    def train() -> list[float]:
        for _ in range(epochs):
            for x, y in of.loader:
                step(of, x, y)
        return weights(of)

    return train


def counted(of: SimpleNamespace) -> int:
    """Return how many steps Opacus' own accountant has counted."""
    return sum(steps for _, _, steps in of.engine.accountant.history)


def granted(ledger: Accountant) -> list[MechanismRequest]:
    decided = ledger.requests("census")
    return [decode(each.request) for each in decided if each.outcome is Outcome.GRANTED]


def drawn_rate(rate: float) -> float:
    """Return how often `torch.rand` is below a rate: by comparing each of its 2^24 numbers."""
    import torch

    numbers = torch.arange(2**24, dtype=torch.float32) / 2**24
    return int((numbers < rate).sum()) / 2**24


def by_hand(of: SimpleNamespace, steps: int) -> Any:
    import dp_accounting as dpa

    gaussian = dpa.GaussianDpEvent(of.optimizer.noise_multiplier)
    one = dpa.PoissonSampledDpEvent(drawn_rate(of.loader.sample_rate), gaussian)
    return event_claim(dpa.SelfComposedDpEvent(one, steps), unit="patient").claim


@every_case(
    ("arguments", "length", "steps"),
    [
        ({}, {"epochs": 2}, 8),
        ({}, {"steps": 5}, 5),
        ({"noise": 1.1, "batch": 7}, {"epochs": 1}, None),
        ({"noise": 1, "rows": 49, "batch": 1}, {"epochs": 3}, None),
        ({"batch": 64}, {"epochs": 1}, 1),
        ({"loss_reduction": "sum"}, {"steps": 1}, 1),
    ],
)
def test_the_claim_is_that_of_the_event_made_by_hand(arguments, length, steps):
    of = private(**arguments)
    training = Training(of.optimizer, of.loader, **length)
    assert training.steps == (length["epochs"] * len(of.loader) if steps is None else steps)
    assert training.claim == by_hand(of, training.steps)


def test_a_training_is_claimed_and_runs(ledger):
    of = private(momentum=0.9)
    before = weights(of)
    training = Training(of.optimizer, of.loader, epochs=2)
    result = ledger.measure("census", training, loop(of), purpose="a model")
    assert result == weights(of) != before
    (request,) = granted(ledger)
    assert request.claim == training.claim == by_hand(of, 8)
    assert (request.unit, request.neighbours, request.purpose) == (
        *("patient", "add_remove", "a model"),
    )
    # Opacus' own accountant counts the same steps.
    assert of.engine.accountant.history == [(2.0, 0.25, 8)]


@pytest.mark.parametrize("loader", [{}, {"num_workers": 2}])
def test_empty_batches_are_steps_too(ledger, loader):
    of = private(rows=4, batch=1, loader=loader)
    training = Training(of.optimizer, of.loader, epochs=5)
    ledger.measure("census", training, loop(of, 5))
    assert counted(of) == 20


@every_case("rate", [1 / 3, 1 / 49, 1e-3, 1.23e-7, 1e-9, 1 - 1e-9, 0.25, 1.0])
def test_the_claimed_rate_is_that_at_which_rows_are_drawn(rate):
    of = private()
    of.loader.batch_sampler.sample_rate = of.loader.sample_rate = rate
    claimed = Training(of.optimizer, of.loader, steps=1).claim.claim.rate
    assert drawn_rate(rate) <= Fraction(claimed) <= drawn_rate(rate) + Fraction(1, 2**24)


@pytest.mark.parametrize(("noise", "batch"), [(1.1, 7), (0.9, 16), (2.0, 1), (5.0, 32)])
def test_the_charge_is_not_below_what_opacus_and_dp_accounting_compute(ledger, noise, batch):
    import dp_accounting as dpa
    from opacus.accountants import PRVAccountant
    from opacus.accountants.analysis.rdp import compute_rdp

    of = private(noise=noise, batch=batch)
    training = Training(of.optimizer, of.loader, epochs=5)
    ledger.measure("census", training, loop(of, 5))
    (_, rate, steps), *more = of.engine.accountant.history
    assert (steps, more) == (training.steps, [])
    charged = Fraction(price(check_claim(training.claim), ("renyi_6",)).wire["renyi_6"])
    # Both compute in floats. The claimed rate is up to 2^-24 above the rate that they have.
    theirs = compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=[6])[0]
    other = dpa.rdp.RdpAccountant([6])
    gaussian = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise))
    other.compose(gaussian, steps)
    for rdp in (theirs, float(other._rdp[0])):
        assert rdp * (1 - 1e-9) <= charged <= rdp * (1 + 1e-5)
    # The exact loss, which Renyi divergences bound.
    prv = PRVAccountant()
    prv.history = [(noise, rate, steps)]
    bound = charged + Fraction(math.log(1e6)) / 5
    assert prv.get_epsilon(1e-6) <= bound


def test_a_training_that_is_not_granted_does_not_run(ledger):
    of = private(noise=0.2)
    before, calls = weights(of), []
    training = Training(of.optimizer, of.loader, steps=1000)
    with pytest.raises(NotGranted, match="exhausted"):
        ledger.measure("census", training, lambda: calls.append(1))
    assert (weights(of), calls, granted(ledger)) == (before, [], [])
    with pytest.raises(StepRefused, match="steps only while"):
        loop(of)()
    assert weights(of) == before


def test_no_step_beyond_the_claimed_ones(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, steps=4)
    seen = []

    def train() -> None:
        for _ in range(2):
            for x, y in of.loader:
                step(of, x, y)
                seen.append(weights(of))

    with pytest.raises(StepRefused, match=r"after 4 of 4 steps.*has taken the 4 steps"):
        ledger.measure("census", training, train)
    assert len(seen) == 4
    assert weights(of) == seen[-1]


def test_no_step_outside_of_the_call(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    before = weights(of)

    def refused() -> None:
        was = weights(of)
        x, y = of.data[:16]
        of.optimizer.zero_grad()
        gradients(of, x, y)
        with pytest.raises(StepRefused, match="steps only while"):
            of.optimizer.step()
        with pytest.raises(StepRefused, match="no noise"):
            of.original.step()
        of.optimizer.zero_grad()
        assert weights(of) == was

    refused()
    ledger.measure("census", training, loop(of, 1))  # fewer steps than claimed
    assert weights(of) != before
    refused()
    assert len(granted(ledger)) == 1


def set_noise(of):
    of.optimizer.noise_multiplier = 0.1


def set_norm(of):
    of.optimizer.max_grad_norm = 10.0


def set_batch_size(of):
    of.optimizer.expected_batch_size = 3


def set_rate(of):
    of.loader.batch_sampler.sample_rate = 0.5


def set_generator(of):
    import torch

    of.optimizer.generator = torch.Generator()


def set_types(of):
    of.model.bfloat16()


def set_default_type(of):
    import torch

    torch.set_default_dtype(torch.bfloat16)


def set_original(of):
    import torch

    of.optimizer.original_optimizer = torch.optim.SGD(of.model.parameters(), lr=0.5)


def lower_noise(of):
    from opacus.schedulers import ExponentialNoise

    ExponentialNoise(of.optimizer, gamma=0.9).step()


def lower_norm(of):
    from opacus.schedulers import ExponentialGradClip

    ExponentialGradClip(of.optimizer, gamma=0.9).step()


CHANGES = [
    *(set_noise, set_norm, set_batch_size, set_rate, set_generator, set_original),
    *(set_types, set_default_type),
    *(lower_noise, lower_norm),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_setting_stops_the_training(ledger, change):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    seen = []

    def train() -> None:
        for x, y in of.loader:
            step(of, x, y)
            seen.append(weights(of))
            if len(seen) == 2:
                change(of)
                seen[1] = weights(of)  # rounded by some changes

    with pytest.raises(
        StepRefused, match=r"after 2 of 8 steps: (optimizer|loader|torch|a parameter)"
    ):
        ledger.measure("census", training, train)
    assert len(seen) == 2
    assert weights(of) == seen[-1]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_setting_that_changed_before_the_call_is_refused_without_a_charge(ledger, change):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    change(of)
    with pytest.raises(RequestInvalid, match=r"optimizer|loader|torch\.get_default_dtype"):
        ledger.measure("census", training, loop(of))
    assert granted(ledger) == []


def test_a_changed_norm_in_the_middle_of_a_batch_stops_the_training(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=1)
    before = weights(of)

    def train() -> None:
        x, y = next(iter(of.loader))
        of.optimizer.signal_skip_step()
        step(of, x, y)
        of.optimizer.max_grad_norm = 0.01  # the noise would be for less than was clipped
        step(of, x[:0], y[:0])

    with pytest.raises(StepRefused, match=r"max_grad_norm was claimed as 1\.0"):
        ledger.measure("census", training, train)
    assert weights(of) == before


def test_a_scheduler_of_learning_rates_is_allowed(ledger):
    from torch.optim.lr_scheduler import StepLR

    of = private()
    scheduler = StepLR(of.optimizer, step_size=1)
    training = Training(of.optimizer, of.loader, epochs=2)
    late = StepLR(of.optimizer, step_size=1)

    def train() -> list[float]:
        for _ in range(2):
            loop(of, 1)()
            scheduler.step()
            late.step()
        return weights(of)

    ledger.measure("census", training, train)
    assert of.original.param_groups[0]["lr"] == pytest.approx(0.5e-4)
    assert counted(of) == 8


def test_an_exception_keeps_the_charge_and_no_retry_is_free(ledger):
    def failing(of: SimpleNamespace) -> Callable[[], None]:
        def train() -> None:
            loop(of, 1)()
            raise KeyboardInterrupt

        return train

    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    with pytest.raises(KeyboardInterrupt):
        ledger.measure("census", training, failing(of), once="model")
    trained = weights(of)
    with pytest.raises(ResultMissing, match="training ended after the first step"):
        ledger.measure("census", training, loop(of), once="model")
    assert weights(of) == trained
    again = private()
    before = weights(again)
    with pytest.raises(ResultMissing, match="training ended after the first step"):
        ledger.measure(
            "census", Training(again.optimizer, again.loader, epochs=2), loop(again), once="model"
        )
    assert weights(again) == before
    assert len(granted(ledger)) == 1


def test_an_exception_before_the_first_step_leaves_the_charge_to_a_retry(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    with pytest.raises(ZeroDivisionError):
        ledger.measure("census", training, lambda: 1 // 0, once="model")
    assert ledger.measure("census", training, loop(of), once="model") == weights(of)
    assert len(granted(ledger)) == 1


def test_a_repeated_call_returns_the_stored_result_or_asks_nothing(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    result = ledger.measure("census", training, loop(of), once="model")
    assert ledger.measure("census", training, loop(of), once="model") == result
    again = private()
    another = Training(again.optimizer, again.loader, epochs=2)
    assert ledger.measure("census", another, loop(again), once="model") == result
    for name in (None, "other"):
        with pytest.raises(RequestInvalid, match="training must not have run"):
            ledger.measure("census", training, loop(of), once=name)
    assert len(granted(ledger)) == 1
    assert weights(of) == result


def test_split_batches_are_one_step(ledger):
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    of = private(rows=40, batch=20, loader={"num_workers": 1})
    training = Training(of.optimizer, of.loader, epochs=3)
    sizes = []

    def train() -> list[float]:
        for _ in range(3):
            with BatchMemoryManager(
                data_loader=of.loader, max_physical_batch_size=4, optimizer=of.optimizer
            ) as small:
                for x, y in small:
                    sizes.append(len(x))
                    step(of, x, y)
        return weights(of)

    ledger.measure("census", training, train)
    assert counted(of) == 6
    assert max(sizes) <= 4
    assert len(sizes) > 6


def noise_of(of: SimpleNamespace) -> list[float]:
    """Return the noise of the last step."""
    size = of.optimizer.expected_batch_size
    noise = [p.grad * size - p.summed_grad for p in of.optimizer.params]
    return [round(float(each), 3) for some in noise for each in some.flatten()]


def test_no_seed_and_no_state_of_pytorch_repeats_the_noise(ledger):
    import torch

    drawn = []
    for _ in range(2):
        torch.manual_seed(7)
        of = private()
        training = Training(of.optimizer, of.loader, epochs=1)

        def train(of: SimpleNamespace = of) -> None:
            for x, y in of.loader:
                torch.manual_seed(7)
                with torch.random.fork_rng():
                    step(of, x, y)
                drawn.append(tuple(noise_of(of)))

        ledger.measure("census", training, train, purpose=f"model {len(drawn)}")
    assert len(set(drawn)) == 8


def test_the_seed_of_a_generator_does_not_determine_its_numbers():
    import torch

    made = [random_generator("cpu") for _ in range(2)]
    first, second = (torch.randn(10**5, generator=each) for each in made)
    again = [torch.Generator().manual_seed(each.initial_seed()) for each in made]
    assert not torch.equal(first, torch.randn(10**5, generator=again[0]))
    # Standard deviations of mean, variance and correlation: 0.003, 0.0045 and 0.003.
    for some in (first, second):
        assert abs(float(some.mean())) < 0.02
        assert abs(float(some.var()) - 1) < 0.03
    assert abs(float((first * second).mean())) < 0.02


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_a_row_without_a_finite_gradient_changes_nothing(ledger, value):
    of = private(batch=64)  # each batch has all rows
    training = Training(of.optimizer, of.loader, steps=1)
    twin = private(batch=64)
    twin.model.load_state_dict(of.model.state_dict())
    twin.data.tensors[0][:], twin.data.tensors[1][:] = of.data.tensors
    of.data.tensors[0][3] = value
    summed = []

    def train() -> None:
        for x, y in of.loader:
            step(of, x, y)
            summed.extend(p.summed_grad for p in of.optimizer.params)

    ledger.measure("census", training, train)
    assert all(math.isfinite(each) for each in weights(of))
    x, y = (torch_without(each, 3) for each in twin.data.tensors)
    gradients(twin, x, y)
    twin.optimizer.clip_and_accumulate()
    for got, expected in zip(summed, twin.optimizer.params, strict=True):
        assert got.flatten().tolist() == pytest.approx(
            expected.summed_grad.flatten().tolist(), abs=1e-4
        )


def torch_without(tensor: Any, row: int) -> Any:
    import torch

    return torch.cat([tensor[:row], tensor[row + 1 :]])


def test_short_gradients_are_clipped_as_long_ones(ledger):
    import torch

    of = private(rows=300, batch=300, norm=1.0)
    training = Training(of.optimizer, of.loader, steps=1)
    sums = []

    def train() -> None:
        for x, y in of.loader:
            of.optimizer.zero_grad()
            gradients(of, x, y)
            for p in of.optimizer.params:  # as with autocast; each row has the same gradient
                p.grad_sample = torch.full_like(p.grad_sample, 1.01).bfloat16()
            of.optimizer.step()
            sums.extend(p.summed_grad.flatten() for p in of.optimizer.params)

    ledger.measure("census", training, train)
    assert 299.9 < float(torch.cat(sums).norm()) < 300.01


def test_a_step_in_another_process_or_thread_is_refused(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=1)
    refused = []

    def one_step() -> None:
        try:
            of.optimizer.step()
        except StepRefused as error:
            refused.append(str(error))

    def train() -> list[float]:
        x, y = next(iter(of.loader))
        of.optimizer.zero_grad()
        gradients(of, x, y)
        if (child := os.fork()) == 0:
            one_step()
            os._exit(len(refused))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        thread = threading.Thread(target=one_step)
        thread.start()
        thread.join()
        of.optimizer.step()
        return weights(of)

    ledger.measure("census", training, train)
    assert len(refused) == 1
    assert "only in the process and the thread" in refused[0]
    assert counted(of) == 1


def test_a_clipping_that_failed_midway_is_not_repeated(ledger, monkeypatch):
    import torch

    of = private(rows=400, batch=200)
    training = Training(of.optimizer, of.loader, epochs=1)
    clip, calls = torch.einsum, []

    def failing(*arguments: Any) -> Any:
        if arguments[0] != "i,i...":
            return clip(*arguments)
        calls.append(arguments)
        if len(calls) == 4:  # the second parameter of the second part
            raise MemoryError
        return clip(*arguments)

    def train() -> None:
        x, y = next(iter(of.loader))
        half = len(x) // 2
        of.optimizer.signal_skip_step()
        step(of, x[:half], y[:half])
        for _ in range(2):
            try:
                step(of, x[half:], y[half:])
            except MemoryError:
                continue

    monkeypatch.setattr("opacus.optimizers.optimizer.torch.einsum", failing)
    with pytest.raises(StepRefused, match="the gradient is of"):
        ledger.measure("census", training, train)
    assert counted(of) == 0


def two_batches_in_a_step(of):
    for number, (x, y) in enumerate(of.loader):
        of.optimizer.signal_skip_step(number % 2 == 0)
        step(of, x, y)


def accumulated_batches(of):
    of.model.allow_grad_accumulation()
    for x, y in of.loader:
        gradients(of, x, y)
    of.optimizer.step()


def a_batch_twice(of):
    for x, y in of.loader:
        step(of, x, y)
        step(of, x, y)


def a_batch_left_out(of):
    for number, (x, y) in enumerate(of.loader):
        if number != 1:
            step(of, x, y)


def rows_twice(of):
    import torch

    for x, y in of.loader:
        step(of, torch.cat([x, x[:1]]), torch.cat([y, y[:1]]))


def other_rows(of):
    step(of, *of.data[:16])


def without_the_noise(of):
    for x, y in of.loader:
        of.original.zero_grad()
        gradients(of, x, y)
        of.original.step()


def updated_twice(of):
    for x, y in of.loader:
        step(of, x, y)
        of.original.step()


def a_parameter_without_noise(of):
    x, y = next(iter(of.loader))
    gradients(of, x, y)
    next(of.model.parameters()).requires_grad_(False)
    of.optimizer.step()


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (two_batches_in_a_step, r"gradient is of \d+ rows, and the batch has \d+"),
        (accumulated_batches, r"gradient is of \d+ rows, and the batch has \d+"),
        (a_batch_twice, "no batch is drawn"),
        (a_batch_left_out, "gradient is of"),
        (rows_twice, "gradient is of"),
        (other_rows, "16 rows, and no batch is drawn"),
        (without_the_noise, "no noise"),
        (updated_twice, "no noise"),
        (a_parameter_without_noise, "needs no gradient has one"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_another_mechanism_stops_the_training(ledger, train, said):
    of = private(rows=400, batch=20)
    training = Training(of.optimizer, of.loader, epochs=2)
    with pytest.raises(StepRefused, match=said):
        ledger.measure("census", training, lambda: train(of))
    was = weights(of)
    with pytest.raises(StepRefused):
        loop(of)()
    assert weights(of) == was


def test_a_refused_step_that_is_caught_ends_the_training(ledger):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)

    def train() -> int:
        refused = 0
        for number, (x, y) in enumerate(of.loader):
            of.optimizer.noise_multiplier = 0.1 if number == 1 else 2.0
            try:
                step(of, x, y)
            except StepRefused:
                refused += 1
        return refused

    assert ledger.measure("census", training, train) == 3
    assert counted(of) == 1


def stepped(**arguments: Any) -> SimpleNamespace:
    of = private(**arguments)
    loop(of, 1)()
    of.optimizer.zero_grad()
    return of


def with_gradients() -> SimpleNamespace:
    of = private()
    gradients(of, *of.data[:16])
    return of


def of_type(dtype: str) -> SimpleNamespace:
    import torch

    of = private()
    of.model.to(getattr(torch, dtype))
    return of


def drawn_coarsely() -> SimpleNamespace:
    import torch

    of = private()
    torch.set_default_dtype(torch.bfloat16)
    return of


def in_another_training() -> SimpleNamespace:
    of = private()
    Training(of.optimizer, of.loader, epochs=1)
    return of


def wrapped_again() -> SimpleNamespace:
    from opacus import PrivacyEngine

    of = in_another_training()
    optimizer = PrivacyEngine()._prepare_optimizer(
        optimizer=of.original, noise_multiplier=2.0, max_grad_norm=1.0, expected_batch_size=16
    )
    return SimpleNamespace(optimizer=optimizer, loader=private().loader)


def with_a_method() -> SimpleNamespace:
    of = private()
    of.optimizer.add_noise = lambda: None
    return of


def a_generator() -> Any:
    import torch

    return torch.Generator().manual_seed(7)


def adaptive() -> SimpleNamespace:
    return private(
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=2.0,
    )


def ghost() -> SimpleNamespace:
    import torch
    from opacus import PrivacyEngine

    of, plain = private(), torch.nn.Linear(3, 1)
    _, optimizer, _, loader = PrivacyEngine().make_private(
        module=plain,
        optimizer=torch.optim.SGD(plain.parameters(), lr=0.5),
        data_loader=torch.utils.data.DataLoader(of.data, batch_size=16),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    return SimpleNamespace(optimizer=optimizer, loader=loader)


def secure() -> SimpleNamespace:
    of = private()
    of.optimizer.secure_mode, of.optimizer.generator = True, a_generator()
    return of


@every_case(
    ("make", "said"),
    [
        (lambda: private(poisson_sampling=False), "loader must sample by Poisson"),
        (lambda: private(noise=0.0), "optimizer.noise_multiplier must be greater than 0"),
        (lambda: private(noise=float("nan")), "optimizer.noise_multiplier must be finite"),
        (lambda: private(noise=float("inf")), "optimizer.noise_multiplier must be finite"),
        (lambda: private(norm=0.0), "optimizer.max_grad_norm must be greater than 0"),
        (lambda: private(norm=1e-39), "optimizer.max_grad_norm must give noise"),
        (lambda: private(norm=float("inf")), "optimizer.max_grad_norm must be finite"),
        (lambda: private(norm=[1.0, 1.0], clipping="per_layer"), "DPPerLayerOptimizer"),
        (adaptive, "AdaClipDPOptimizer"),
        (ghost, "DPOptimizerFastGradientClipping"),
        (lambda: private(rand_on_empty=True), "rand_on_empty must be False"),
        (lambda: private(noise_generator=a_generator()), "optimizer must have no generator"),
        (lambda: private(loader={"generator": a_generator()}), "loader must have no generator"),
        (secure, "loader.generator must be the optimizer's"),
        (lambda: of_type("bfloat16"), "parameters of float32 or float64.*got torch.bfloat16"),
        (lambda: of_type("complex64"), "parameters of float32 or float64.*got torch.complex64"),
        (drawn_coarsely, "torch.get_default_dtype must be float32 or float64"),
        (lambda: stepped(momentum=0.9), "optimizer must not have stepped"),
        (stepped, "must not have stepped.*counted by its PrivacyEngine"),
        (with_gradients, "must have no gradients"),
        (in_another_training, "must not have stepped.*another training"),
        (wrapped_again, "must not have stepped.*another training"),
        (with_a_method, "must have Opacus' own methods, got add_noise"),
    ],
)
def test_a_training_without_a_claim_is_refused(make, said):
    import torch

    try:
        of = make()
        with pytest.raises(RequestInvalid, match=said):
            Training(of.optimizer, of.loader, epochs=1)
    finally:
        torch.set_default_dtype(torch.float32)  # one case sets another, and the next follows


@every_case(
    ("length", "said"),
    [
        ({}, "epochs must be passed, or steps"),
        ({"epochs": 1, "steps": 1}, "epochs must be passed, or steps"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"steps": -1}, "steps must be at least 1"),
        ({"steps": True}, "steps must be a whole number"),
        ({"epochs": 1.0}, "epochs must be a whole number"),
        ({"steps": 1_000_001}, "claim.times must be between"),
    ],
)
def test_the_length_is_checked_and_leaves_the_optimizer_free(length, said):
    of = private()
    with pytest.raises(RequestInvalid, match=said):
        Training(of.optimizer, of.loader, **length)
    Training(of.optimizer, of.loader, epochs=1)


def test_other_objects_are_refused():
    of = private()
    with pytest.raises(TypeError, match="DPOptimizer of Opacus' make_private, got SGD"):
        Training(of.original, of.loader, epochs=1)
    with pytest.raises(TypeError, match=r"optimizer must be the .* got dict. Pass what"):
        Training({"noise_multiplier": 1.0}, of.loader, epochs=1)
    with pytest.raises(TypeError, match="DPDataLoader of Opacus' make_private, got list"):
        Training(of.optimizer, [of.data], epochs=1)


async def later() -> None: ...


def one_by_one() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("train", "arguments", "said"),
    [
        (None, {}, "data must be a function that trains"),
        (later, {}, "data must be a function that trains"),
        (one_by_one, {}, "data must be a function that trains"),
        (lambda batches: batches, {}, "can be called without arguments"),
        (list, {"d_in": 1}, "d_in must be left out for a training"),
        (list, {"delta": "1e-6"}, "delta must be left out for a training"),
        (list, {"neighbours": "replace"}, "neighbours must be left out for a training"),
    ],
)
def test_a_call_that_cannot_train_asks_nothing(ledger, train, arguments, said):
    of = private()
    with pytest.raises(RequestInvalid, match=said):
        ledger.measure("census", Training(of.optimizer, of.loader, epochs=1), train, **arguments)
    assert granted(ledger) == []


def test_a_dataset_of_replaced_units_is_refused(ledger):
    ledger.as_owner("owner").open("clinic", POLICY | {"neighbours": "replace"}, as_given=True)
    of = private()
    with pytest.raises(RequestInvalid, match="neighbours must be add_remove"):
        ledger.measure("clinic", Training(of.optimizer, of.loader, epochs=1), loop(of))
    assert counted(of) == 0


async def test_the_async_client_does_the_same(ledger, clock):
    of = private()
    training = Training(of.optimizer, of.loader, epochs=2)
    async with AsyncAccountant(ledger.url, clock=clock, analyst="ana") as awaited:
        result = await awaited.measure("census", training, loop(of), once="model")
        assert await awaited.measure("census", training, loop(of), once="model") == result
        other = private()
        stopped = Training(other.optimizer, other.loader, steps=1)
        with pytest.raises(StepRefused, match="has taken the 1 steps"):
            await awaited.measure("census", stopped, loop(other), purpose="again")
    assert weights(of) == result
    assert len(granted(ledger)) == 2


def test_the_page_has_a_program_that_runs(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "opacus.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(import.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("ACCOUNTANT_URL", f"sqlite:///{tmp_path}/ledger.db")
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{program}print(weights)"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
    ).stdout
    assert re.fullmatch(r"\[\[\[-?\d.*\]\n", shown)
