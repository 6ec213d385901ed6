"""Every optimizer, sampler and accountant of Opacus: claimed for what it adds, or refused."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from types import SimpleNamespace
from typing import Any, Final

import pytest

from accountant.claims import Repeat, SubsampledGaussian
from accountant.errors import RequestInvalid
from streams.engines.opacus import Training

pytestmark = [
    pytest.mark.opacus,
    # Warnings of Opacus and PyTorch about themselves.
    pytest.mark.filterwarnings("ignore:Secure RNG turned off", "ignore:Full backward hook"),
]

CLAIMED: Final = {"DPOptimizer"}
REFUSED: Final = {
    "AdaClipDPOptimizer": "its threshold is learned from the rows, with noise of its own",
    "DPOptimizerFastGradientClipping": "the gradients were clipped before it has them",
    "DPPerLayerOptimizer": "each layer has a norm of its own",
    "DistributedDPOptimizer": "each process adds a part of the noise, if it adds any",
    "DistributedDPOptimizerFastGradientClipping": "both of the above",
    "DistributedPerLayerOptimizer": "both of the above",
    "FSDPOptimizerFastGradientClipping": "each process has a part of the parameters",
    "SimpleDistributedPerLayerOptimizer": "both of the above",
}
SAMPLERS: Final = {"UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler"}
ACCOUNTANTS: Final = {"rdp", "gdp", "prv"}
MODES: Final = ("hooks", "functorch", "ew")


def optimizers() -> dict[str, Any]:
    """Return the kinds of optimizers of the installed version, by name."""
    import opacus.optimizers as package

    modules = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    named = [vars(importlib.import_module(each.name)).items() for each in modules]
    return {
        name: value
        for name, value in itertools.chain(*named)
        if inspect.isclass(value) and issubclass(value, package.DPOptimizer)
    }


def private(
    *, accountant: str = "rdp", rows: int = 64, width: int = 3, **options: Any
) -> SimpleNamespace:
    """Return a linear model with what `make_private` makes of it."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(rows, width), torch.randn(rows))
    plain = torch.nn.Linear(width, 1, bias=False)
    options = {"noise_multiplier": 2.0, "max_grad_norm": 0.5} | options
    model, optimizer, loader = PrivacyEngine(accountant=accountant).make_private(
        module=plain,
        optimizer=torch.optim.SGD(plain.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=16),
        **options,
    )
    return SimpleNamespace(model=model, optimizer=optimizer, loader=loader)


def test_every_optimizer_of_the_installed_version_is_claimed_or_refused() -> None:
    assert optimizers().keys() == CLAIMED | REFUSED.keys()


def test_an_optimizer_of_another_kind_is_refused_by_its_name() -> None:
    loader = private().loader
    for name, kind in optimizers().items():
        if name not in CLAIMED:
            with pytest.raises(RequestInvalid, match=f"must be a DPOptimizer: .* got {name}"):
                Training(kind.__new__(kind), loader, epochs=1)


def test_a_subclass_is_refused() -> None:
    class Own(optimizers()["DPOptimizer"]):  # type: ignore[misc] # the engine has no types
        """It may add other noise."""

    with pytest.raises(RequestInvalid, match=r"must be a DPOptimizer: .* got Own"):
        Training(Own.__new__(Own), private().loader, epochs=1)


def test_make_private_makes_only_optimizers_of_the_table() -> None:
    from opacus.optimizers import get_optimizer_class

    made = set()
    modes = (*MODES, "ghost", "ghost_fsdp", None)
    clippings = ("flat", "per_layer", "adaptive")
    for clipping, distributed, mode in itertools.product(clippings, (False, True), modes):
        try:
            kind = get_optimizer_class(clipping, distributed=distributed, grad_sample_mode=mode)
        except ValueError:
            continue  # Opacus has none
        made.add(kind.__name__)
        is_plain = clipping == "flat" and not distributed and mode in {*MODES, None}
        assert (kind.__name__ in CLAIMED) is is_plain
    assert made <= CLAIMED | REFUSED.keys()


def test_every_sampler_of_the_installed_version_is_claimed_or_refused() -> None:
    from opacus.utils import uniform_sampler

    kinds = {
        name: value
        for name, value in vars(uniform_sampler).items()
        if inspect.isclass(value) and value.__module__ == uniform_sampler.__name__
    }
    assert kinds.keys() == SAMPLERS
    of = private()
    of.loader.batch_sampler.__class__ = kinds["DistributedUniformWithReplacementSampler"]
    with pytest.raises(RequestInvalid, match="must sample by Poisson in one process"):
        Training(of.optimizer, of.loader, epochs=1)


def test_the_claim_is_the_same_whichever_accountant_counts() -> None:
    from opacus.accountants import registry

    assert registry._ACCOUNTANTS.keys() == ACCOUNTANTS
    for accountant in ACCOUNTANTS:
        of = private(accountant=accountant)
        assert Training(of.optimizer, of.loader, epochs=2).claim == Repeat(
            SubsampledGaussian("2", "1", "0.25"), 8
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_step_has_the_noise_and_the_sensitivity_of_its_claim(mode: str, reduction: str) -> None:
    import torch

    width, noise, norm = 20_000, 2.0, 0.5
    options = {"grad_sample_mode": mode, "loss_reduction": reduction}
    of = private(rows=4, width=width, noise_multiplier=noise, max_grad_norm=norm, **options)
    (parameter,) = of.optimizer.params

    def clipped(rows: Any) -> Any:
        """Return the sum of the clipped gradients of rows, without noise."""
        of.optimizer.zero_grad()
        loss = of.model(rows).sum() if reduction == "sum" else of.model(rows).mean()
        loss.backward()
        of.optimizer.clip_and_accumulate()
        return parameter.summed_grad.clone()

    some, huge = torch.randn(3, width), 1e6 * torch.randn(1, width)
    moved = (clipped(torch.cat([some, huge])) - clipped(some)).norm().item()
    assert norm * 0.99 <= moved <= norm * (1 + 1e-4), "what one row can change"
    clipped(some)
    before = parameter.summed_grad.clone()
    of.optimizer.add_noise()
    drawn = (parameter.grad - before.view_as(parameter)).std().item()
    # Of 20,000 numbers the standard deviation is within 3 % but once in 10^9.
    assert drawn == pytest.approx(noise * norm, rel=0.03)
