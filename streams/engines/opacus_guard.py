"""Counts and checks each noisy step of an Opacus optimizer, and refuses any that is not claimed."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from accountant.errors import BudgetError

_OF_OPTIMIZER: Final = (
    "noise_multiplier",
    "max_grad_norm",
    "expected_batch_size",
    "loss_reduction",
    "generator",
    "secure_mode",
    "original_optimizer",
)
_OF_SAMPLER: Final = ("sample_rate", "num_samples", "generator")


class StepRefused(BudgetError):
    """A training was about to do what it had not claimed; the parameters are as before the step."""


def settings(optimizer: Any, loader: Any) -> dict[str, Any]:
    """Return what the noise and the sampling of each step depend on."""
    sampler = loader.batch_sampler
    return {
        # Opacus compares the sample rate with random numbers of this type.
        "torch.get_default_dtype": sys.modules["torch"].get_default_dtype(),
        **{f"optimizer.{name}": getattr(optimizer, name) for name in _OF_OPTIMIZER},
        **{f"loader.batch_sampler.{name}": getattr(sampler, name) for name in _OF_SAMPLER},
        "loader.batch_sampler": sampler,
    }


class StepGuard:
    """The guard of one optimizer and its loader: from the first, no step is taken without it.

    The gradient of each noisy step must be of the rows of one batch of the loader, in the order in
    which they were drawn. A batch that is used twice or left out, two batches in one step, and rows
    from elsewhere would be another mechanism. Batches that `BatchMemoryManager` splits are whole
    again at their noisy step.

    Noise and sampling get generators of their own, unless the engine has a secure one: a seed that
    is set, and a state that is put back, would reveal the noise or repeat it.

    Attributes:
        settings: that the claim is for.
        steps: how many noisy steps were claimed.
        taken: how many were taken.
    """

    def __init__(self, optimizer: Any, loader: Any, steps: int) -> None:
        if not optimizer.secure_mode:
            (device,) = {parameter.device for parameter in optimizer.params}
            optimizer.generator = random_generator(device)
            loader.batch_sampler.generator = random_generator("cpu")
        self.settings = settings(optimizer, loader)
        self.steps = steps
        self.taken = 0
        self._optimizer, self._loader = optimizer, loader
        self._open = False
        self._caller: tuple[int, int] | None = None  # process and thread that may step
        self._drawn: deque[int] = deque()  # rows of the batches that were not stepped on yet
        self._rows = 0  # in the gradient that the next noisy step releases
        self._noised = frozenset[int]()  # ids of the parameters whose gradients have noise
        self._clip, self._add_noise = optimizer.clip_and_accumulate, optimizer.add_noise
        # Opacus' own `step` calls these two of the instance.
        optimizer.clip_and_accumulate, optimizer.add_noise = self.clip, self.add_noise
        optimizer.original_optimizer.register_step_pre_hook(self.before_update)
        _count_batches(loader.batch_sampler, self)

    def open(self) -> None:
        """Allow the claimed steps. Raises: StepRefused: they were allowed before."""
        if self._open or self.taken:
            raise StepRefused("this training has begun before. Make another, of a new optimizer")
        self._drawn.clear()
        self._rows = 0
        self._caller = _caller()
        self._open = True

    def close(self) -> None:
        """Allow no further step."""
        self._open = False
        self._noised = frozenset()

    def clip(self) -> None:
        """Add the clipped gradients of a physical batch to those of the step."""
        self._check_caller()
        self._check_settings()
        # Before the clipping: if it fails midway, a second try would add some rows twice.
        self._rows += len(self._optimizer.grad_samples[0])
        _make_finite(self._optimizer.params)
        self._clip()

    def add_noise(self) -> None:
        """Add the noise of a step, if it is as claimed."""
        self._check_caller()
        self._check_settings()
        if self.taken == self.steps:
            self._refuse(f"it has taken the {self.steps} steps that it claimed")
        batch = self._drawn.popleft() if self._drawn else None
        if batch != self._rows:
            drawn = "no batch is drawn" if batch is None else f"the batch has {batch}"
            self._refuse(
                f"the gradient is of {self._rows} rows, and {drawn}. Step once on each batch of "
                "the loader, in their order, empty ones too"
            )
        self.taken += 1  # before the draw: noise that fails midway may have been seen
        self._rows = 0
        noised = frozenset(map(id, self._optimizer.params))
        self._add_noise()
        self._noised = noised

    def before_update(self, *_: Any) -> None:
        """Let the original optimizer change the parameters once for each noisy gradient."""
        if not self._noised:
            self._refuse("the gradient has no noise: step with the optimizer of make_private")
        noised, self._noised = self._noised, frozenset()
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                gradient = None if id(parameter) in noised else parameter.grad
                if gradient is not None and gradient.any():
                    self._refuse("a parameter that needs no gradient has one, without noise")

    def start_epoch(self) -> None:
        """Forget the batches of an iteration of the loader that ended early."""
        self._drawn.clear()

    def note_batch(self, rows: int) -> None:
        """Note a batch as it is drawn."""
        if self._open:  # by any thread: some programs draw batches ahead in another one
            self._check_settings()
        self._drawn.append(rows)

    def changed(self) -> tuple[str, Any, Any] | None:
        """Return a setting that is no longer as claimed: its name, and both values."""
        for name, now in settings(self._optimizer, self._loader).items():
            claimed = self.settings[name]
            if now is not claimed and (type(now) is not type(claimed) or now != claimed):
                return name, claimed, now
        return None

    def _check_caller(self) -> None:
        if not self._open:
            raise StepRefused(
                "this optimizer steps only while `ledger.measure` runs its training, once. Make a "
                "training of a new optimizer"
            )
        if self._caller != _caller():
            # A forked process has its own count, and threads could both take the last step.
            raise StepRefused(
                "this optimizer steps only in the process and the thread that run its training"
            )

    def _check_settings(self) -> None:
        if (change := self.changed()) is not None:
            name, claimed, now = change
            self._refuse(f"{name} was claimed as {_as_text(claimed)}, and is {_as_text(now)}")
        if (coarse := coarse_type(self._optimizer)) is not None:
            self._refuse(f"a parameter has the type {coarse}, which cannot express the noise")

    def _refuse(self, why: str) -> None:
        self.close()
        after = f"after {self.taken} of {self.steps} steps"
        raise StepRefused(f"the training was stopped {after}: {why}")


def _as_text(value: object) -> str:
    return repr(value) if isinstance(value, int | float | str) else type(value).__name__


def coarse_type(optimizer: Any) -> Any | None:
    """Return the type of a parameter that is neither float32 nor float64, if there is one.

    A shorter type rounds clipped gradients up by as much as 1 %, and has too few values for noise.
    A complex one has the noise's variance in both parts together: half of it in each.
    """
    torch = sys.modules["torch"]
    fine = (torch.float32, torch.float64)
    return next((each.dtype for each in optimizer.params if each.dtype not in fine), None)


def random_generator(device: Any) -> Any:
    """Return a generator of PyTorch whose state comes from the operating system."""
    torch = sys.modules["torch"]
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(os.urandom(8)))
    state = generator.get_state()
    if generator.device.type == "cpu" and len(state) == _STATE_BYTES:
        # On a CPU only 32 bits of the seed count, which is few enough to try them all.
        words = state[_WORDS_FROM : _WORDS_FROM + 8 * _WORDS].view(_WORDS, 8)
        fresh = torch.frombuffer(bytearray(os.urandom(4 * _WORDS)), dtype=torch.uint8)
        words[:, :4] = fresh.view(_WORDS, 4)
        generator.set_state(state)
    return generator


# The state of PyTorch's Mersenne Twister: 32-bit words, in 8 bytes each, behind four integers.
_STATE_BYTES: Final = 5056
_WORDS_FROM: Final = 24
_WORDS: Final = 624


def _caller() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def _make_finite(parameters: list[Any]) -> None:
    """Set the gradient of each row to 0 in which a number is not finite.

    Opacus cannot clip it: the step would be NaN, whatever the noise, and so show that the row is
    there. Gradients get their parameters' type, since autocast's norms have 8 bits.
    """
    torch = sys.modules["torch"]
    for parameter in parameters:
        sample = parameter.grad_sample
        if isinstance(sample, list):
            parameter.grad_sample = [each.to(parameter.dtype) for each in sample]
        elif sample.dtype != parameter.dtype:
            parameter.grad_sample = sample.to(parameter.dtype)
    batches = zip(*(_batches(parameter) for parameter in parameters), strict=True)
    for batch in batches:
        if not len(batch[0]):
            continue
        rows = [torch.isfinite(each).reshape(len(each), -1).all(dim=1) for each in batch]
        finite = torch.stack([each.to(rows[0].device) for each in rows]).all(dim=0)
        if not finite.all():
            for each in batch:
                each[~finite.to(each.device)] = 0


def _batches(parameter: Any) -> list[Any]:
    sample = parameter.grad_sample
    return sample if isinstance(sample, list) else [sample]


def guard_of(original_optimizer: Any) -> StepGuard | None:
    """Return the guard that a PyTorch optimizer already has, if any."""
    hooks = getattr(original_optimizer, "_optimizer_step_pre_hooks", {}).values()
    owners = (getattr(hook, "__self__", None) for hook in hooks)
    return next((owner for owner in owners if isinstance(owner, StepGuard)), None)


def _count_batches(sampler: Any, guard: StepGuard) -> None:
    """Have a sampler tell its guard of each batch that it draws."""
    kind = type(sampler)

    class CountedSampler(kind):  # type: ignore[misc,valid-type] # the engine has no types
        def __iter__(self) -> Iterator[list[int]]:
            guard.start_epoch()
            for batch in super().__iter__():
                guard.note_batch(len(batch))
                yield batch

    # PyTorch does not allow to replace the sampler of a loader.
    sampler.__class__ = CountedSampler
