"""What OpenDP's record of how a measurement was made says beyond its map.

Each constructor of OpenDP records its name and its arguments on what it returns. The tables name
constructors of versions 0.14 to 0.16; a test compares them with the installed version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from accountant.errors import RequestInvalid

ONE_RELEASE: Final = frozenset(
    {
        "make_alp_queryable",  # draws once; its answers follow from that
        "make_canonical_noise",
        "make_gaussian",
        "make_geometric",
        "make_laplace",
        "make_noise",
        "make_noisy_max",
        "make_noisy_top_k",
        "make_private_expr",
        "make_private_lazyframe",  # its result may be collected once
        "make_private_quantile",
        "make_randomized_response",
        "make_randomized_response_bitvec",
        "make_randomized_response_bool",
        "make_report_noisy_max_gumbel",
        "make_user_measurement",  # its function and its map are the user's promise
        "make_approximate",
        "make_basic_composition",
        "make_chain_mt",
        "make_chain_pm",
        "make_chain_tt",
        "make_composition",
        "make_fix_delta",
        "make_fixed_approxDP_to_approxDP",
        "make_pureDP_to_zCDP",
        "make_select_private_candidate",
        "make_zCDP_to_approxDP",
    }
)
"""Measurements that answer once, if everything that they are made of does."""

INTERACTIVE: Final = frozenset(
    {
        "make_adaptive_composition",
        "make_fully_adaptive_composition",
        "make_privacy_filter",
        "make_sequential_composition",
    }
)
"""Measurements that answer queries, which may depend on answers of anything."""

REFUSED: Final[Mapping[str, str]] = {
    "make_b_ary_tree": (
        "must not use make_b_ary_tree under L2Distance, whose map is too small. Use L1Distance"
    ),
    **{
        name: f"must not use {name}, whose delta leaves out what it shows at the threshold itself"
        for name in ("make_gaussian_threshold", "make_laplace_threshold", "make_noise_threshold")
    },
    "make_population_amplification": (
        "must not use make_population_amplification, which holds for one question on a secret "
        "sample: the next one meets the same sample. Claim the measurement that it amplifies"
    ),
}
"""Constructors whose map is not a loss that a ledger can add up, and why."""

_MODULES: Final = frozenset({"measurements", "combinators"})


class Constructor(NamedTuple):
    """A call of a constructor, as OpenDP records it; all is empty where there is no record."""

    module: str
    name: str
    arguments: Mapping[str, Any]


def check_constructors(measurement: Any) -> None:
    """Check that no constructor of a measurement has a map that a ledger cannot add up.

    Raises: RequestInvalid.
    """
    for each in _constructors(measurement):
        if each.name in REFUSED and _is_refused(each):
            raise RequestInvalid("measurement", REFUSED[each.name], each.name)


def is_one_release(measurement: Any) -> bool:
    """Return whether a measurement is known to answer once, and not query after query."""
    return all(
        each.name in ONE_RELEASE
        for each in _constructors(measurement)
        if each.module in _MODULES or not each.name
    )


def is_of_its_user(measurement: Any) -> bool:
    """Return whether a function of the user's makes the result, or a part of it."""
    return any(each.name == "make_user_measurement" for each in _constructors(measurement))


def _is_refused(constructor: Constructor) -> bool:
    if constructor.name != "make_b_ary_tree":
        return True
    metric = constructor.arguments.get("input_metric")
    return not str(getattr(metric, "type", "")).startswith("L1Distance")


def _constructors(value: Any) -> Iterator[Constructor]:
    """Yield the constructors of a measurement, of what it is made of, and so on."""
    from opendp.mod import Function, Measurement, Odometer, Transformation

    if isinstance(value, list | tuple):
        for each in value:
            yield from _constructors(each)
    elif isinstance(value, Measurement | Odometer | Transformation | Function):
        record = getattr(value, "__opendp_dict__", {})
        arguments = record.get("__kwargs__", {})
        module, name = record.get("__module__", ""), record.get("__function__", "")
        if module or not isinstance(value, Transformation | Function):
            yield Constructor(module, name, arguments)
        for each in arguments.values():
            yield from _constructors(each)
