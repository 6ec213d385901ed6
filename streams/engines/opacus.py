"""Opacus: a training with DP-SGD, whose steps are claimed together, and no others are taken."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any, Final, SupportsIndex
from uuid import UUID

from accountant.claims import Claim, Repeat, SubsampledGaussian, check_claim
from accountant.errors import RequestInvalid
from streams.engines.mechanism import EngineMechanism
from streams.engines.opacus_guard import StepGuard, StepRefused, coarse_type, guard_of
from streams.engines.rounding import integer, rate_up, text_down
from streams.engines.wrong_type import wrong_type

__all__ = ["StepRefused", "Training"]

_FLAT: Final = (
    "must be a DPOptimizer: flat clipping, in one process, without ghost or adaptive clipping"
)
_POISSON: Final = "must sample by Poisson in one process: make_private(..., poisson_sampling=True)"
_NEW: Final = "must not have stepped: make a new optimizer and a new PrivacyEngine"
_OTHER_NEIGHBOURS: Final = (
    "must be add_remove for a training with Opacus: its noise is relative to what one row adds"
)


class Training:
    """A training with Opacus, for `ledger.measure(dataset, training, train)`.

    It claims all noisy steps together: a Gaussian on a Poisson sample, `steps` times. From its
    making on, the optimizer steps only while `measure` runs `train`, at most so often, and with the
    noise and the sampling that it had. Anything else raises `StepRefused`, and leaves the
    parameters as they are.

    Args:
        optimizer, loader: of `PrivacyEngine.make_private`, not used before.
        epochs: how often the training iterates the loader; or
        steps: how many noisy steps it takes at most.

    Attributes:
        claim: for one row added or removed; each unit has one row.
        steps: claimed.

    Raises:
        RequestInvalid: no claim describes the training, its noise can be known, or the optimizer
            has been used. TypeError: the objects are not those of Opacus.
    """

    def __init__(
        self,
        optimizer: Any,  # the engine has no types
        loader: Any,
        *,
        epochs: SupportsIndex | None = None,
        steps: SupportsIndex | None = None,
    ) -> None:
        _check_optimizer(optimizer)
        _check_loader(loader)
        _check_types(optimizer)
        _check_randomness(optimizer, loader)
        _check_unused(optimizer)
        self.steps = _steps(loader, epochs, steps)
        noise = text_down(optimizer.noise_multiplier, "optimizer.noise_multiplier")
        _check_noise(optimizer)
        rate = _rate(loader.batch_sampler.sample_rate)
        self.claim: Claim = Repeat(SubsampledGaussian(noise, "1", rate), self.steps)
        try:
            check_claim(self.claim)
        except RequestInvalid as error:
            raise error.under("claim") from None
        self._optimizer, self._loader = optimizer, loader
        self._name: str | None = None  # of its first run
        self._guard = StepGuard(optimizer, loader, self.steps)

    def mechanism(self, train: Any, name: str | UUID | None) -> EngineMechanism:
        """Return the claim, and the training under its guard.

        Args:
            train: the function that trains, without arguments.
            name: of the result; a training that has run is asked for again under its name alone.

        Raises: RequestInvalid.
        """
        if not callable(train) or _is_suspended(train):
            rule = "must be a function that trains when it is called, and returns the result"
            raise RequestInvalid("data", rule, train)
        text = None if name is None else str(name)
        if self._guard.taken and (text is None or text != self._name):
            rule = "must not have run, except under the same name: make another, of a new optimizer"
            raise RequestInvalid("training", rule, f"{self._guard.taken} steps taken")
        if not self._guard.taken:
            self._check_as_claimed()
        if_other = RequestInvalid("neighbours", _OTHER_NEIGHBOURS, "replace")
        run = self._guarded(train, text)
        return EngineMechanism(
            self.claim, "add_remove", run, if_other, released=lambda: self._guard.taken > 0
        )

    def _guarded(self, train: Callable[[], Any], name: str | None) -> Callable[[], Any]:
        @wraps(train)  # `measure` checks the signature
        def run() -> Any:
            self._guard.open()
            self._name = name
            try:
                return train()
            finally:
                self._guard.close()

        return run

    def _check_as_claimed(self) -> None:
        """Check that what was checked and claimed when the training was made is still so."""
        _check_types(self._optimizer)
        _check_gradients(self._optimizer)
        if (change := self._guard.changed()) is not None:
            field, claimed, now = change
            raise RequestInvalid(field, f"must stay as claimed ({claimed!r})", now)


def _is_exactly(value: object, module: str, name: str) -> bool:
    # An object of Opacus exists only where Opacus is imported; a subclass may be another mechanism.
    return type(value) is getattr(sys.modules.get(module), name, None)


_HOW: Final = (
    "Pass what `model, optimizer, loader = PrivacyEngine().make_private(...)` returns, not its "
    "settings"
)


def _check_optimizer(optimizer: Any) -> None:
    module = "opacus.optimizers.optimizer"
    if not _is_exactly(optimizer, module, "DPOptimizer"):
        name = type(optimizer).__name__
        if isinstance(optimizer, getattr(sys.modules.get(module), "DPOptimizer", ())):
            raise RequestInvalid("optimizer", _FLAT, name)
        raise wrong_type("optimizer", "the DPOptimizer of Opacus' make_private", optimizer, _HOW)
    if guard_of(optimizer.original_optimizer) is not None:
        raise RequestInvalid("optimizer", _NEW, "that of another training")
    kind = type(optimizer)
    # PyTorch's schedulers of learning rates wrap `step`, which calls the others.
    replaced = [name for name in vars(optimizer) if name != "step" and hasattr(kind, name)]
    if replaced:
        raise RequestInvalid("optimizer", "must have Opacus' own methods", replaced[0])
    if not hasattr(optimizer.original_optimizer, "register_step_pre_hook"):
        name = type(optimizer.original_optimizer).__name__
        raise RequestInvalid("optimizer", "must wrap an optimizer of PyTorch", name)


def _check_loader(loader: Any) -> None:
    if not _is_exactly(loader, "opacus.data_loader", "DPDataLoader"):
        name = type(loader).__name__
        if isinstance(loader, sys.modules["torch.utils.data"].DataLoader):
            raise RequestInvalid("loader", _POISSON, name)
        raise wrong_type("loader", "the DPDataLoader of Opacus' make_private", loader, _HOW)
    sampler = loader.batch_sampler
    if not _is_exactly(sampler, "opacus.utils.uniform_sampler", "UniformWithReplacementSampler"):
        raise RequestInvalid("loader.batch_sampler", _POISSON, type(sampler).__name__)
    if loader.sample_rate != sampler.sample_rate:
        rule = f"must be that of its sampler, {sampler.sample_rate!r}"
        raise RequestInvalid("loader.sample_rate", rule, loader.sample_rate)
    if getattr(loader.collate_fn, "rand_on_empty", False):
        rule = "must be False: a random row instead of none doubles what one row can change"
        raise RequestInvalid("rand_on_empty", rule, True)


def _check_randomness(optimizer: Any, loader: Any) -> None:
    """Check the generators: the guard makes its own, unless the engine has a secure one."""
    sampling = loader.batch_sampler.generator
    if optimizer.secure_mode:
        if optimizer.generator is None or sampling is not optimizer.generator:
            rule = "must be the optimizer's, as of a PrivacyEngine with secure_mode"
            raise RequestInvalid("loader.generator", rule, sampling)
        return
    for field, generator in (("optimizer", optimizer.generator), ("loader", sampling)):
        if generator is not None:
            rule = "must have no generator of its own without secure_mode: its seed may be known"
            raise RequestInvalid(field, rule, type(generator).__name__)
    devices = sorted({str(parameter.device) for parameter in optimizer.params})
    if len(devices) != 1:
        rule = "must have parameters, all on one device, where their noise is drawn"
        raise RequestInvalid("optimizer", rule, ", ".join(devices))
    default = sys.modules["torch"].get_default_device()
    if default.type != "cpu":
        rule = "must be the CPU, where batches are drawn"
        raise RequestInvalid("torch.get_default_device", rule, str(default))


def _check_types(optimizer: Any) -> None:
    torch = sys.modules["torch"]
    if (coarse := coarse_type(optimizer)) is not None:
        rule = "must have parameters of float32 or float64: others cannot express the noise"
        raise RequestInvalid("optimizer", rule, str(coarse))
    default = torch.get_default_dtype()
    if default not in (torch.float32, torch.float64):
        rule = "must be float32 or float64: others draw a row more often than the sample rate says"
        raise RequestInvalid("torch.get_default_dtype", rule, str(default))


def _check_unused(optimizer: Any) -> None:
    """Check, as far as one can see, that no step was taken."""
    if optimizer.original_optimizer.state:
        raise RequestInvalid("optimizer", _NEW, "one with a state")
    # The engine's own accountant counts steps, in the hook that make_private attaches.
    cells = getattr(optimizer.step_hook, "__closure__", None) or ()
    if any(getattr(cell.cell_contents, "history", None) for cell in cells):
        raise RequestInvalid("optimizer", _NEW, "steps counted by its PrivacyEngine")
    _check_gradients(optimizer)


def _check_gradients(optimizer: Any) -> None:
    fields = ("grad_sample", "summed_grad")
    for parameter in optimizer.params:
        if any(getattr(parameter, field, None) is not None for field in fields):
            raise RequestInvalid("optimizer", "must have no gradients: call zero_grad()", "some")
    if optimizer._step_skip_queue or optimizer._is_last_step_skipped:
        raise RequestInvalid("optimizer", _NEW, "a skipped step")


def _check_noise(optimizer: Any) -> None:
    """Check that the parameters' types can express the noise: a smaller one would be 0."""
    norm = optimizer.max_grad_norm
    text_down(norm, "optimizer.max_grad_norm")
    finfo = sys.modules["torch"].finfo
    least = max((finfo(each.dtype).tiny for each in optimizer.params), default=0.0)
    if optimizer.noise_multiplier * norm < least:
        rule = f"must give noise that the parameters can have, at least {least}"
        raise RequestInvalid("optimizer.max_grad_norm", rule, norm)


def _rate(rate: Any) -> str:
    """Return the probability with which the sampler draws a row, rounded up.

    It draws a row if a random number is below the rate: a multiple of 2^-24, or of less.
    """
    exact = rate_up(rate, "loader.sample_rate")
    rounded = sys.modules["torch"].tensor(float(rate), dtype=sys.modules["torch"].float32).item()
    ticks = max(math.ceil(Fraction(each) * 2**24) for each in (exact, rounded))
    return rate_up(min(Fraction(ticks, 2**24), Fraction(1)), "loader.sample_rate")


def _steps(loader: Any, epochs: SupportsIndex | None, steps: SupportsIndex | None) -> int:
    if (epochs is None) == (steps is None):
        raise RequestInvalid("epochs", "must be passed, or steps, not both", epochs)
    field, value = ("steps", steps) if epochs is None else ("epochs", epochs)
    number = integer(value, field)
    if number < 1:
        raise RequestInvalid(field, "must be at least 1", value)
    return number if epochs is None else number * len(loader)


def _is_suspended(train: object) -> bool:
    """Whether a call would return before the training ends."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    call = getattr(type(train), "__call__", None)  # noqa: B004
    return any(kind(train) or kind(call) for kind in kinds)
