"""Cells of each type of PostgreSQL are read as the how-to says."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from accountant.questions import Schema, check_schema, evaluate
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    NumberColumn,
    TimeColumn,
    UnitColumn,
)
from streams.sources.database import connected
from streams.sources.zone_files import find_zone
from tests.accountant.questions.schemas import SOURCE
from tests.sources.postgresql_server import PostgresqlServer
from tests.streams.sources.source_files import asked, statistics_of_file

UUID = "00000000-0000-0000-0000-00000000000a"
WIDE = check_schema(
    Schema(
        source=SOURCE,
        columns=(
            NumberColumn(name="n", lower="-999999999999999", upper="999999999999999", places=12),
            CategoryColumn(name="c", categories=("5", "ana", " ana", UUID, "16777215")),
            BooleanColumn(name="b"),
        ),
        unit=UnitColumn(column="unit", rows=1),
        neighbours="replace",
    )
)
QUESTIONS = ("sum(n)", "variance(n)", "histogram(c)", "count by b")

INFINITY = math.inf
Cells = dict[str, object]
"""What each literal of a type is read as."""
TYPES: dict[str, Cells] = {
    "smallint": {"5": 5, "-32768": -32768, "1": 1},
    "integer": {"5": 5, "2147483647": 2147483647, "0": 0},
    "bigint": {
        "5": 5,
        "9223372036854775807": 9223372036854775807,
        "9223372036854775806": 2**63 - 2,
    },
    "real": {
        "5": 5,
        "0.1": Fraction(13421773, 134217728),
        "1e30": 1e30,
        "1": 1,
        "16777215": 16777215,
        # It merges these two, so that it names nothing.
        "16777216": 16777216.0,
        "16777217": 16777216.0,
        "NaN": None,
        "Infinity": INFINITY,
        "-Infinity": -INFINITY,
    },
    "double precision": {
        "5": 5,
        "0.1": 0.1,
        "1e300": 1e300,
        "16777217": 16777217,
        "9007199254740993": 2.0**53,
        "NaN": None,
        "Infinity": INFINITY,
        "-Infinity": -INFINITY,
        "-0": 0,
    },
    "numeric(38,0)": {"5": 5, "9" * 38: 10**38 - 1, "-1": -1, "1": 1, "NaN": None},
    "numeric(200,0)": {"7" * 99: int("7" * 99), "7" * 101: int("7" * 101), "5": 5, "NaN": None},
    "numeric(4,-2)": {"12345": 12300, "500": 500},
    "numeric(20,15)": {
        "12345.0000000000005": Decimal("12345.0000000000005"),
        "-12345.0000000000005": Decimal("-12345.0000000000005"),
        "1": Decimal(1),
        "NaN": None,
    },
    "numeric": {
        "5": Decimal(5),
        "0.5": Decimal("0.5"),
        "NaN": None,
        "0": Decimal(0),
        "Infinity": INFINITY,
        "-Infinity": -INFINITY,
        "1e-1000": Decimal(0),
        # Beyond the places that are kept, each side of the middle of two values.
        "-0.0000000000005" + "0" * 200 + "1": Fraction(-6, 10**13),
        "-0.0000000000005": Decimal("-0.0000000000005"),
        "0.00000000000049" + "9" * 200: Decimal(0),
        "7" * 300: 10**300,
        "-" + "7" * 300: -(10**300),
    },
    "boolean": {"true": True, "false": False},
    "text": {
        "ana": "ana",
        "ana ": "ana ",
        "Ana": "Ana",
        "": "",
        "5": "5",
        "1e0": "1e0",
        "true": "true",
        "ж\U0001f600\n": "ж\U0001f600\n",
        "x" * 100_000: "x" * 100_000,
    },
    "varchar(9)": {"ana": "ana", "ana ": "ana ", "false": "false"},
    # Spaces at its end are not of its value.
    "char(9)": {"ana": "ana", "ana ": "ana", " ana": " ana", "5": "5", "": ""},
    'text COLLATE "C"': {"ana": "ana", "ANA": "ANA"},
    "uuid": {UUID: UUID, UUID.upper().replace("-", ""): UUID},
    "mood": {"ana": "ana", "5": "5", " ana": " ana"},
    "small": {"5": 5, "1": 1},
    "smaller": {"5": 5, "0": 0},
    "rounded": {"5.04": Decimal(5), "1.25": Decimal("1.3")},
    **{
        type_: dict.fromkeys(literals)
        for type_, literals in {
            "date": ["2026-01-05", "infinity"],
            "time": ["05:00"],
            "timetz": ["05:00+01"],
            "timestamp": ["2026-01-05 00:00", "infinity", "294276-12-31"],
            "timestamptz": ["2026-01-05 00:00", "4713-01-01 BC"],
            "interval": ["5 days"],
            "bytea": ["5"],
            "json": ["5", '"ana"', "true"],
            "jsonb": ["5", '"ana"', "true"],
            "money": ["5"],
            "integer[]": ["{5}"],
            "text[]": ["{ana}"],
            "bit(3)": ["101"],
            "inet": ["10.0.0.5"],
            "int4range": ["[1,5)"],
            "pair": ["(5,ana)"],
            "name": ["ana"],
            '"char"': ["5"],
            "oid": ["5"],
            "point": ["(5,5)"],
            "several": ["{5}"],
            "tsvector": ["ana"],
            "xid": ["5"],
        }.items()
    },
}


@pytest.fixture(scope="module", autouse=True)
def types(server: PostgresqlServer) -> None:
    server.run(
        "CREATE TYPE mood AS ENUM ('ana', '5', ' ana')",
        "CREATE TYPE pair AS (number integer, name text)",
        "CREATE DOMAIN small AS bigint CHECK (VALUE < 9)",
        "CREATE DOMAIN smaller AS small CHECK (VALUE < 8)",
        "CREATE DOMAIN rounded AS numeric(5, 1)",
        "CREATE DOMAIN several AS integer[]",
    )


@pytest.mark.parametrize("type_", TYPES)
def test_cells_of_a_type_are_read_as_the_how_to_says(
    type_: str, server: PostgresqlServer, tmp_path: Path
) -> None:
    for named, questions in ((("n", "c", "b"), QUESTIONS), (("unit",), ("count",))):
        columns = {"unit": "integer", "n": "integer", "c": "text", "b": "boolean"}
        columns |= dict.fromkeys(named, type_)
        listed = ", ".join(f"{each} {kind}" for each, kind in columns.items())
        server.run("DROP TABLE IF EXISTS typed", f"CREATE TABLE typed ({listed})")
        rows = list[Cells]()
        with server.connect() as connection:
            cells = [*TYPES[type_].items(), (None, None), *TYPES[type_].items()]
            for i, (literal, cell) in enumerate(cells):
                rest = {"unit": i, "n": 1, "c": "ana", "b": True}
                written = {each: str(value) for each, value in rest.items()}
                written |= dict.fromkeys(named, literal)
                connection.execute(
                    b"INSERT INTO typed VALUES (%s, %s, %s, %s)",
                    [written[each] for each in columns],
                )
                names_nothing = type_ == "real" and cell == 16777216.0
                rows.append(
                    rest
                    | {
                        each: None if names_nothing and each in ("unit", "c") else cell
                        for each in named
                    }
                )
        settings = server.source(tmp_path, "public.typed")
        for text in questions:
            checked = asked(text, WIDE, "postgresql")
            found = statistics_of_file(settings, checked, key=b"k")
            assert found == evaluate(checked, rows, key=b"k"), text


DATES: dict[str, dict[str, object]] = {
    "date": {
        "2026-01-31": "2026-01-31",
        "0001-01-01": "0001-01-01",
        "9999-12-31": "9999-12-31",
        **dict.fromkeys(("infinity", "-infinity", "5874897-12-31", "4713-01-01 BC")),
    },
    "timestamp": {
        "2026-01-31 23:59:59.999999": "2026-01-31T23:59:59",
        "1969-12-31 23:59:59.5": "1969-12-31T23:59:59",
        "0001-01-01 00:00": "0001-01-01",
        **dict.fromkeys(("infinity", "-infinity", "294276-12-31 23:59", "4713-01-01 BC")),
    },
    "timestamptz": {
        "2026-01-31 23:30+00": "2026-01-31T23:30Z",
        "2026-07-31 23:30+02": "2026-07-31T21:30Z",
        "0001-01-01 00:00+00": "0001-01-01T00:00Z",
        **dict.fromkeys(("infinity", "-infinity", "294276-12-31 23:59+00", "4713-01-01 BC")),
    },
    "text": {"2026-01-31T23:30+01:00": "2026-01-31T22:30Z", "infinity": None},
}


@pytest.mark.parametrize("type_", DATES)
def test_dates_of_a_type_are_read_as_the_how_to_says(
    type_: str, server: PostgresqlServer, tmp_path: Path
) -> None:
    ends = {"first": "0001-01-01", "last": "9999-12-31"}
    columns = (DateColumn(name="d", **ends), TimeColumn(name="t", **ends))
    schema = check_schema(
        Schema(source=SOURCE, columns=columns, neighbours="replace", zone="Europe/Berlin")
    )
    server.run("DROP TABLE IF EXISTS dated", f"CREATE TABLE dated (d {type_}, t {type_})")
    with server.connect() as connection:
        for literal in (*DATES[type_], None):
            connection.execute(b"INSERT INTO dated VALUES (%s, %s)", [literal, literal])
    rows = [{"d": cell, "t": cell} for cell in (*DATES[type_].values(), None)]
    settings = server.source(tmp_path, "dated")
    zone = find_zone("Europe/Berlin")
    assert zone is not None
    for text in ("count by year(d)", "count by year(t)", "count by hour(t), weekday(d)"):
        checked = asked(text, schema, "postgresql")
        found = statistics_of_file(settings, checked, key=b"k")
        assert found == evaluate(checked, rows, key=b"k", zone=zone), text


def test_no_type_of_the_catalog_is_an_error(server: PostgresqlServer, tmp_path: Path) -> None:
    with server.connect() as connection:
        found = connection.execute(
            "SELECT format_type(oid, NULL) FROM pg_type WHERE typtype IN ('b', 'r', 'm', 'c', 'e') "
            "AND typnamespace = 'pg_catalog'::regnamespace AND typname NOT LIKE 'pg\\_%' ORDER BY 1"
        ).fetchall()
        # Some types are of the server alone.
        kinds = list[str]()
        for (kind,) in found:
            try:
                connection.execute(f"CREATE TABLE of_type (x {kind})".encode())
                connection.execute("DROP TABLE of_type")
            except Exception:
                continue
            kinds.append(kind)
    assert len(kinds) > 100
    listed = ", ".join(f"x{i} {kind}" for i, kind in enumerate(kinds))
    server.run(f"CREATE TABLE catalog (unit integer, {listed})", "INSERT INTO catalog VALUES (1)")
    settings = server.source(tmp_path, "catalog")
    for i in range(0, len(kinds), 50):
        numbers = tuple(
            NumberColumn(name=f"x{j}", lower="0", upper="9")
            for j in range(i, min(i + 50, len(kinds)))
        )
        schema = check_schema(
            Schema(
                source=SOURCE,
                columns=numbers,
                unit=UnitColumn(column="unit", rows=1),
                neighbours="replace",
            )
        )
        checked = asked(f"count where x{i} is missing", schema, "postgresql")
        assert statistics_of_file(settings, checked, key=b"") == ((1,),)


def test_names_and_types_are_listed_without_a_row(server: PostgresqlServer, tmp_path: Path) -> None:
    server.run(
        'CREATE TABLE listed (id bigint, "Id" mood, d smaller, gone text, r rounded, c char(3), '
        'n numeric, w numeric(9,0), a several, j json, "we""ird {x} %s" numeric(9,2), u uuid, '
        "f real, s smallint)",
        "ALTER TABLE listed DROP COLUMN gone",
        "CREATE VIEW failing AS SELECT id, 1 / (d - d) AS x FROM listed",
    )
    with connected(server.source(tmp_path, "public.listed"), None) as opened:
        (table,) = opened.tables
    found = {name: (each.type_id, each.places) for name, each in table.columns.items()}
    assert list(found) == [
        *("id", "Id", "d", "r", "c", "n", "w", "a", "j", 'we"ird {x} %s', "u", "f", "s"),
    ]
    kinds = [type_id for type_id, _ in found.values()]
    assert kinds == [
        *("bigint", "enum", "bigint", "decimal", "varchar", "decimal", "bignum", "integer[]"),
        *("json", "decimal", "uuid", "float", "smallint"),
    ]
    assert [found[name][1] for name in ("r", "n", "w", 'we"ird {x} %s')] == [1, 18, 0, 2]
    assert table.repeated == frozenset()
    with connected(server.source(tmp_path, "failing"), None) as opened:
        assert set(opened.tables[0].columns) == {"id", "x"}
