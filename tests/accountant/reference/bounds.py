"""Which of our functions answers each bound of tests/vectors.

One module a topic; to implement another bound, name it in the `BOUNDS` of its module.
"""

from __future__ import annotations

from typing import Final

from tests.accountant.reference import comparators, conversions, filters, odometers, renyi
from tests.accountant.reference.common import Bound, Inverse

TOPICS: Final = (conversions, filters, odometers, renyi, comparators)

BOUNDS: Final[dict[str, Bound | Inverse]] = {
    name: bound for topic in TOPICS for name, bound in topic.BOUNDS.items()
}
