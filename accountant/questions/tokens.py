"""The words of the grammar of questions, and errors that name a position and what is expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, Literal

from accountant.errors import RequestInvalid
from accountant.questions.decimals import MAX_PLACES, number_to_write
from accountant.questions.schema import RESERVED

TokenKind = Literal["word", "keyword", "number", "text", "symbol", "end"]

MAX_TEXT: Final = 2_000
_TOKEN = re.compile(
    r"(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>-?[0-9][0-9A-Za-z_.]*)"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<symbol><=|>=|!=|<>|==|[=<>(),])"
)
_NUMBER = re.compile(rf"-?[0-9]{{1,15}}(?:\.[0-9]{{1,{MAX_PLACES}}})?")
_OTHER_SPELLINGS: Final = {"==": "=", "<>": "!=", "&": "and", "|": "or", "!": "not"}
_OF_OTHERS: Final = {
    **{each: f"write {meant}" for each, meant in _OTHER_SPELLINGS.items()},
    "*": "name a column in the place of *",
    "/": "write a decimal, such as 0.333333 for 1/3",
    "avg": "write mean",
    "average": "write mean",
    "stddev": "write std",
    "percentile": "write quantile",
    "select": "write the statistic alone, as in mean(age) where age > 65 by region",
    "from": "leave out from: the dataset is named beside the question",
    "group": "write by and the columns, as in count by region",
    "distinct": "write count rows 1, which counts each unit once",
    "having": "leave it out, and choose among the groups of the answer: it has all of them",
    "order": "leave it out, and sort the answer: it has all groups",
    "limit": "leave it out, and cut the answer; top(region, 3) chooses the most frequent",
}
"""What to write in place of the words of other languages, SQL's first."""
COUNT_HINT: Final = "count has no column: write count, as in count where age > 65"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One word of a text.

    Attributes:
        written: as it is in the text; of a text, what stands between its quotes.
        position: of its first character, from 1.
        quote: of a text, ' or "; else "".
    """

    kind: TokenKind
    written: str
    position: int
    quote: str = ""


class TokenReader:
    """Reads the words of a text one after another.

    Args:
        field: what errors call the text.
    Raises: RequestInvalid: it is too long, or holds a character that begins no word.
    """

    def __init__(self, text: str, *, field: str) -> None:
        self.text = text
        self.field = field
        if len(text) > MAX_TEXT:
            raise RequestInvalid(field, f"must be at most {MAX_TEXT} characters", text)
        self._tokens = self._split()
        self._next = 0

    def _split(self) -> list[Token]:
        tokens, at = list[Token](), 0
        while True:
            while self.text[at : at + 1] == " ":
                at += 1
            if at == len(self.text):
                tokens.append(Token(kind="end", written="", position=at + 1))
                return tokens
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise self._unreadable(at)
            tokens.append(_token(found, at + 1))
            at = found.end()

    def _unreadable(self, at: int) -> RequestInvalid:
        character = self.text[at]
        if character in "'\"":
            rule = f"must close with {character} the text that begins at character {at + 1}"
            return RequestInvalid(self.field, rule, self.text[at:])
        rule = f"must have a word, a number, a quoted text or a sign at character {at + 1}"
        is_count = re.search(r"count *\( *$", self.text[:at], re.IGNORECASE) and character == "*"
        hint = (lambda: COUNT_HINT) if is_count else _spelling(character)
        return RequestInvalid(self.field, rule, character, hint=hint)

    def peek(self) -> Token:
        """Return the next word, which stays the next one."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """Return the next word, and go on behind it."""
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def take_if(self, *written: str) -> Token | None:
        """Take the next word if it is one of some signs or words of the grammar."""
        token = self.peek()
        if token.kind in {"keyword", "symbol"} and token.written in written:
            return self.take()
        return None

    def take_number(self, what: str) -> Fraction:
        """Take a number. Raises: RequestInvalid: the next word is none, or has too many digits."""
        token = self.peek()
        if token.kind != "number" or _NUMBER.fullmatch(token.written) is None:
            raise self.error(what, hint=partial(_number_hint, token.written))
        return Fraction(self.take().written)

    def expect(self, written: str, *, hint: Callable[[], str] | None = None) -> Token:
        """Take a sign or a word of the grammar. Raises: RequestInvalid: the next one is another."""
        token = self.take_if(written)
        if token is None:
            is_in_a_name = written == ")" and self.peek().kind in {"word", "keyword"}
            raise self.error(written, hint=_quote_names if is_in_a_name else hint)
        return token

    def expect_name(self, what: str) -> Token:
        """Take a name: a word that is none of the grammar's, or any in double quotes.

        Raises: RequestInvalid: the next word is no name.
        """
        token = self.peek()
        if token.kind == "word" or token.quote == '"':
            return self.take()
        if token.kind in {"keyword", "text"}:
            raise self.error(what, hint=lambda: f'write the name of a column as "{token.written}"')
        raise self.error(what)

    def error(
        self,
        expected: str,
        token: Token | None = None,
        *,
        hint: Callable[[], str] | None = None,
    ) -> RequestInvalid:
        """Return the error that something else is expected at a word, by default the next one."""
        token = token or self.peek()
        found = f"'{token.written}'" if token.kind == "text" else token.written or "the end"
        rule = f"must have {expected} at character {token.position}"
        return RequestInvalid(self.field, rule, found, hint=hint or _spelling(token.written))


def _token(found: re.Match[str], position: int) -> Token:
    written = found[0]
    if found["text"]:
        quote = written[0]
        inner = written[1:-1].replace(quote * 2, quote)
        return Token(kind="text", written=inner, position=position, quote=quote)
    if found["number"]:
        return Token(kind="number", written=written, position=position)
    if found["symbol"]:
        return Token(kind="symbol", written=written, position=position)
    if written.lower() in RESERVED:
        return Token(kind="keyword", written=written.lower(), position=position)
    return Token(kind="word", written=written, position=position)


def _quote_names() -> str:
    return 'quote a name of several words, as in mean("year of birth")'


def _spelling(written: str) -> Callable[[], str]:
    return lambda: word_hint(written)


def _number_hint(written: str) -> str:
    return number_to_write(written) or word_hint(written)


def word_hint(written: str) -> str:
    """Return what to write in place of a word of another language, "" of any other word."""
    return _OF_OTHERS.get(written.lower(), "")
