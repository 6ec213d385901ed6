"""What the oracle says where a ledger has not done as the documents say."""

from __future__ import annotations


class Disagreement(AssertionError):
    """The log, or what stands beside it, is not as predicted.

    Attributes:
        about: what differs, in one word: a field of the record, or `chain`, `number`, `clock`,
            `inputs`, `state`, `dead_letters`, `answer`.
    """

    def __init__(self, about: str, said: object, predicted: object, where: object = "") -> None:
        self.about = about
        self.said = said
        self.predicted = predicted
        super().__init__(f"{about}: the ledger says {said!r}, predicted is {predicted!r} {where}")


def agree(about: str, said: object, predicted: object, where: object = "") -> None:
    """Compare what a ledger says with what is predicted.

    Raises: Disagreement.
    """
    if said != predicted:
        raise Disagreement(about, said, predicted, where)
