"""The mark of the format, and the rules, by which a record was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeVar

import msgspec

from accountant.errors import MadeByNewerVersion, MadeByPrereleaseVersion

T = TypeVar("T")
Value = bytes | str | msgspec.Raw

FORMAT: Final = 2
"""Format of decisions and rows: each carries it as `version`. Records of versions before the first
release have 1, or no `version` at all."""
Format = Literal[2]
RULES: Final = 1
"""Number of the newest rules of adjudication; each decision carries the number that made it."""


class _Mark(msgspec.Struct):
    version: int = 1


class _Maker(_Mark):
    rules: int = 0


_decode_mark = msgspec.json.Decoder(_Mark).decode
_decode_maker = msgspec.json.Decoder(_Maker).decode


def check_maker(value: Value) -> None:
    """Check that this version knows the rules and the format by which a record was made.

    Reads nothing else of the record: another version may have put anything there. The mark comes
    first: what versions before the first release called rules is another count.

    Raises:
        MadeByPrereleaseVersion: it does not have the mark.
        MadeByNewerVersion: this version does not know them.
        DECODE_ERRORS: the record cannot be read.
    """
    version = _decode_mark(value).version
    if version < FORMAT:
        msgspec.json.decode(value)  # garbage is no record, of whatever version
        raise MadeByPrereleaseVersion
    if version > FORMAT:
        raise MadeByNewerVersion("version", version, FORMAT)
    rules = _decode_maker(value).rules
    if rules > RULES:
        raise MadeByNewerVersion("rules", rules, RULES)


def reader(kind: type[T]) -> Callable[[Value], T]:
    """Return a decoder for records of a type that has `version: Format`.

    Of a record in another form it raises what `check_maker` does, else DECODE_ERRORS.
    """
    decode = msgspec.json.Decoder(kind).decode

    def read(value: Value) -> T:
        try:
            return decode(value)
        except msgspec.ValidationError:
            check_maker(value)
            raise

    return read
