"""An answer to a question as text and as HTML: values, intervals and cost, rounded outward.

Every text from a schema or a request is escaped. The HTML has no script, style or address, so that
a page with a strict content policy may hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from html import escape
from itertools import islice
from typing import Final

from msgspec import UNSET

from accountant.answers import AnswerRow, NoisyAnswer, PairEstimate, compare_groups
from accountant.answers.pairs import Comparison, Group, group_of_text
from accountant.display.numbers import counted, spent_line
from accountant.foreign_text import escape_text
from accountant.questions import noise_text, question_text, stop_text
from accountant.questions.question_text import statistic_text
from accountant.questions.statistics import ChoiceQuestion, SeveralQuestion

MAX_ROWS: Final = 200
"""Rows of a table; an answer has up to 10,000."""
MAX_BARS: Final = 60
NO_ESTIMATE: Final = "no estimate"
_EXACT: Final = Context(prec=200)
_WIDTH_DIGITS: Final = 2
"""Significant digits of an interval's half width."""
_LABEL, _BARS, _ROW, _GAP = 160, 320, 18, 4  # of the chart, in pixels


def answer_text(answer: NoisyAnswer) -> str:
    """Return an answer as lines: the question, the values with intervals, the bounds, the cost."""
    title = _title(answer)
    if answer.outcome == "failed":
        return f"{title}: {answer.reason}\n{cost_line(answer)}"
    rows = [_row_cells(answer, row) for row in _first_rows(answer)]
    if len(rows) == 1 and len(rows[0]) == 1:
        lines = [f"{title}: {rows[0][0]}{_confidence(answer)}"]
        return "\n".join([*lines, *bounds_lines(answer), cost_line(answer)])
    table = [_headings(answer), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    head, rest = f"{title}{_confidence(answer)}", [*_rest(answer), *bounds_lines(answer)]
    return "\n".join([head, *lines, *rest, cost_line(answer)])


def answer_in_short(answer: NoisyAnswer) -> str:
    """Return the one value with its interval, the chosen ones, or how many values there are."""
    if answer.outcome == "failed":
        return "failed"
    rows = list(_first_rows(answer))
    if len(rows) == 1 and answer.columns:
        pairs = zip(_value_names(answer), rows[0], strict=True)
        return ", ".join(f"{name} {interval_text(row)}" for name, row in pairs)
    if len(rows) == 1 or (_is_ranked(answer) and not answer.groups):
        return ", ".join(interval_text(row) for (row,) in rows)
    return f"{sum(len(each.values) for each in answer.alone)} values"


def question_line(answer: NoisyAnswer) -> str:
    """Return what was asked, with the rule of a session."""
    stops = "" if answer.stop is UNSET else f" until {stop_text(answer.stop)}"
    return escape_text(f"{question_text(answer.question)}{stops}")


def answer_html(answer: NoisyAnswer) -> str:
    """Return an answer as a fragment of HTML: a table, and bars with intervals for groups."""
    title = f"<caption>{escape(_title(answer))}{_confidence(answer)}</caption>"
    cost = f"<p>{escape(cost_line(answer))}</p>"
    if answer.outcome == "failed":
        return f"<table>{title}</table><p>{escape(str(answer.reason))}</p>{cost}"
    head = "".join(f"<th>{escape(each)}</th>" for each in _headings(answer))
    body = "".join(_html_row(answer, row) for row in _first_rows(answer))
    rest = "".join(f"<p>{escape(each)}</p>" for each in _rest(answer))
    table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    bounds = "".join(f"<p>{escape(each)}</p>" for each in bounds_lines(answer))
    return f"{table}{rest}{answer_chart(answer)}{bounds}{cost}"


def _html_row(answer: NoisyAnswer, row: _Row) -> str:
    cells = [*map(escape, _row_cells(answer, row))]
    exact = [""] * (len(cells) - len(row))
    for each in row:
        exact.append("" if each.value is None else f' title="{escape(escape_text(each.value))}"')
    return f"<tr>{''.join(f'<td{a}>{b}</td>' for a, b in zip(exact, cells, strict=True))}</tr>"


def answer_chart(answer: NoisyAnswer) -> str:
    """Return bars with intervals as SVG; "" of one value, of several columns, or no intervals.

    The scale is that of the intervals, which are noisy, too.
    """
    # A group without an estimate has no bar.
    rows = [row for row in answer.rows() if row.value is not None]
    if not 1 < len(rows) <= MAX_BARS or not answer.low:
        return ""
    ends = [
        (Decimal(str(row.low)), Decimal(str(row.value)), Decimal(str(row.high))) for row in rows
    ]
    least = min(Decimal(0), *(low for low, _, _ in ends))
    span = max(Decimal(0), *(high for _, _, high in ends)) - least or Decimal(1)

    def x(value: Decimal) -> float:
        return round(_LABEL + float((value - least) / span) * _BARS, 1)

    drawn = []
    for i, (row, (low, value, high)) in enumerate(zip(rows, ends, strict=True)):
        top = i * (_ROW + _GAP)
        middle = top + _ROW / 2
        left, right = sorted((x(Decimal(0)), x(value)))
        label = _group_label(row)
        drawn.append(
            f"<g><title>{escape(f'{label}: {interval_text(row)}')}</title>"
            f'<text x="{_LABEL - 6}" y="{middle}" text-anchor="end" dominant-baseline="middle" '
            f'font-size="12" fill="currentColor">{escape(_short(label))}</text>'
            f'<rect x="{left}" y="{top}" width="{round(right - left, 1)}" height="{_ROW}" '
            'fill="currentColor" fill-opacity="0.3"/>'
            f'<path d="M{x(low)} {middle}H{x(high)}M{x(low)} {top + 5}v8M{x(high)} {top + 5}v8" '
            'stroke="currentColor" fill="none"/></g>'
        )
    width, height = _LABEL + _BARS + 10, len(rows) * (_ROW + _GAP)
    name = escape(_title(answer))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">{"".join(drawn)}</svg>'
    )


def interval_text(row: AnswerRow) -> str:
    """Return a value with its interval: `4286 ± 18`, `48200 (41200 to 55700)`, or the value alone.

    `no estimate` of a quotient whose noisy count carries none.

    The half width has two digits, and the value as many places. Both are rounded so that the
    interval only grows.
    """
    if row.value is None:
        return NO_ESTIMATE
    if row.low is None or row.high is None:
        return escape_text(row.value)
    low, value, high = Decimal(row.low), Decimal(row.value), Decimal(row.high)
    width = _EXACT.subtract(high, low) / 2
    digits = [-int(each.as_tuple().exponent) for each in (low, value, high)]
    places = (
        min(max(digits), max(0, _WIDTH_DIGITS - 1 - width.adjusted())) if width else max(digits)
    )
    unit = Decimal(1).scaleb(-places)
    shown = value.quantize(unit, context=_EXACT)
    if _EXACT.subtract(value, low) == _EXACT.subtract(high, value):
        moved = abs(_EXACT.subtract(shown, value))
        half = _EXACT.add(width, moved).quantize(unit, ROUND_CEILING, _EXACT)
        return f"{shown:f} ± {half:f}"
    return (
        f"{shown:f} ({low.quantize(unit, ROUND_FLOOR, _EXACT):f} "
        f"to {high.quantize(unit, ROUND_CEILING, _EXACT):f})"
    )


def pair_text(pair: PairEstimate) -> str:
    """Return a difference or a ratio with its interval: `north / south: 1.18 (1.02 to 1.36)`."""
    sign = "-" if pair.comparison == "difference" else "/"
    first, second = (_pair_group(each) for each in pair.groups)
    low, high = pair.interval or (None, None)
    row = AnswerRow(
        (), 0, *(None if each is None else f"{each:f}" for each in (pair.value, low, high))
    )
    percent = f"{pair.confidence.scaleb(2).normalize():f}"
    held = "intervals of all pairs" if pair.simultaneous else "interval"
    return f"{first} {sign} {second}: {interval_text(row)}, {percent} % {held}"


def pair_lines(
    answer: NoisyAnswer, comparison: Comparison, first: str, second: str, *, simultaneous: bool
) -> list[str]:
    """Return a comparison of two groups in each column of numbers.

    Args:
        first, second: texts of groups, such as `north`, or `north, true` of two columns.
    Raises: RequestInvalid: there is no such group, or no numbers of one answer.
    """
    groups = [
        group_of_text(answer, text, field=field)
        for field, text in (("first", first), ("second", second))
    ]
    names = [f"{name}: " for name in _value_names(answer)] if answer.columns else [""]
    columns = zip(names, answer.alone, strict=True)
    of_numbers = [each for each in columns if each[1].low] or [("", answer)]
    return [
        name + pair_text(compare_groups(each, comparison, *groups, simultaneous=simultaneous))
        for name, each in of_numbers
    ]


def _pair_group(group: Group) -> str:
    return ", ".join(map(_group_text, group if isinstance(group, tuple) else (group,)))


def bounds_lines(answer: NoisyAnswer) -> Sequence[str]:
    """Return the bounds that the values keep to, in one line; none of an answer without them.

    In further lines, what a reader may take for data: a choice, or that there is no estimate.
    """
    bounds = answer.bounds
    if bounds is UNSET:
        return []
    if bounds.unit is UNSET:
        words = "each row counts as one unit"
    else:
        rows = counted(bounds.rows, "row")
        words = f"at most {rows} per {bounds.unit}"
        if bounds.rows_per_group is not UNSET:
            words += f", {bounds.rows_per_group} in each group"
    if bounds.size is not UNSET:
        words += f"; {bounds.size:,} rows, as the schema states"
    for within in dict.fromkeys(_column_bounds(each) for each in answer.alone):
        words += within
    return [f"bounds: {escape_text(words)}", *_notes(answer)]


def _column_bounds(answer: NoisyAnswer) -> str:
    bounds, question = answer.bounds, answer.question
    if bounds is UNSET or bounds.lower is UNSET or isinstance(question, SeveralQuestion):
        return ""
    return f"; {question.column_name} from {bounds.lower} to {bounds.upper}"


def _notes(answer: NoisyAnswer) -> list[str]:
    notes = list[str]()
    if any(None in each.values for each in answer.alone):
        notes.append(f"{NO_ESTIMATE}: the noisy count may be of no rows at all")
    notes += [_rank_error(each) for each in answer.alone if each.rank_error is not UNSET]
    if any(isinstance(each.question, ChoiceQuestion) for each in answer.alone):
        notes.append("a value is chosen even where there are no rows: a count says about how many")
    return notes


def _rank_error(answer: NoisyAnswer) -> str:
    """Return how far each choice may be from the best candidate."""
    question, most = answer.question, Decimal(str(answer.rank_error))
    assert isinstance(question, ChoiceQuestion), "other statistics have no choice"
    rows = "row" if most == 1 else "rows"
    off = "fewer than the best one left" if question.chooses_categories else "too many on one side"
    times = f"in {_percent(answer)} of 100 answers"
    return escape_text(f"{statistic_text(question)}: {times} at most {most:f} {rows} {off}")


def cost_line(answer: NoisyAnswer) -> str:
    """Return what an answer cost; of a session also what was reserved, and fixed noise's cost."""
    may_be_void = answer.outcome == "failed" and answer.stop is not UNSET
    most = "at most " if may_be_void else ""
    line = f"cost {most}{spent_line(answer.cost)} ({noise_text(answer.noise)})"
    if answer.reserved_cost is not UNSET:
        line += f", {spent_line(answer.reserved_cost)} reserved"
    if answer.fixed_cost is not UNSET:
        line += f"; noise fixed in advance for this error: {spent_line(answer.fixed_cost)}"
    if answer.stopped is False:
        line += "; the error was not reached"
    return line


def _title(answer: NoisyAnswer) -> str:
    return escape_text(question_text(answer.question))


def _confidence(answer: NoisyAnswer) -> str:
    intervals = sum(len(each.low) for each in answer.alone)
    if not intervals:
        return ""
    return f", {_percent(answer)} % interval{'s' if intervals > 1 else ''} of the bounded rows"


def _percent(answer: NoisyAnswer) -> str:
    return f"{Decimal(str(answer.confidence)).scaleb(2).normalize():f}"


_Row = tuple[AnswerRow, ...]
"""The values of a group: one, or one of each column."""


def _is_ranked(answer: NoisyAnswer) -> bool:
    return not isinstance(answer.question, SeveralQuestion) and answer.question.is_ranked


def _value_names(answer: NoisyAnswer) -> list[str]:
    question = answer.question
    if isinstance(question, SeveralQuestion):
        return [escape_text(statistic_text(each)) for each in question.statistics]
    return [escape_text(question.value_name)]


def _headings(answer: NoisyAnswer) -> list[str]:
    rank = ["rank"] if _is_ranked(answer) else []
    groups = [escape_text(column.column) for column in answer.groups]
    return [*groups, *rank, *_value_names(answer)]


def _first_rows(answer: NoisyAnswer) -> Iterator[_Row]:
    yield from islice(zip(*(each.rows() for each in answer.alone), strict=True), MAX_ROWS)


def _rest(answer: NoisyAnswer) -> Sequence[str]:
    more = len(answer.alone[0].values) - MAX_ROWS
    return [f"and {more} more rows"] if more > 0 else []


def _row_cells(answer: NoisyAnswer, row: _Row) -> list[str]:
    rank = [str(row[0].rank + 1)] if _is_ranked(answer) else []
    return [*map(_group_text, row[0].group), *rank, *map(interval_text, row)]


def _group_text(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else escape_text(value)


def _group_label(row: AnswerRow) -> str:
    return ", ".join(map(_group_text, row.group))


def _short(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:23]}…"
