"""The error of the oracle for a ledger that differs from the documents."""

from __future__ import annotations


class Disagreement(AssertionError):
    """The log, or its rows, inputs or dead letters, are not as predicted.

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
    """Compare a ledger's value with the predicted one.

    Raises: Disagreement.
    """
    if said != predicted:
        raise Disagreement(about, said, predicted, where)
