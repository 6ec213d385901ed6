"""A table of PostgreSQL has one verdict and one snapshot, and its errors show nothing."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from accountant.questions import Schema, check_schema, evaluate
from accountant.questions.schema import NumberColumn, UnitColumn
from streams.sources import DataSources, SourceUnreadable
from streams.sources.database import Interruption, connected, run
from streams.sources.source_settings import PostgresqlSource
from streams.sources.source_tables import EnvironmentProblem, SourceProblem
from tests.accountant.questions.schemas import SOURCE, small_schema
from tests.patience import PATIENCE_S
from tests.sources.postgresql_server import PASSWORD, PostgresqlServer
from tests.streams.sources.source_files import asked, statistics_of_file, with_source

SECRET = "4111-secret"
UNREADABLE = "the source census cannot be read"
QUESTIONS = (
    *("count", "count where t = true", "count where t = false and x < 0", "sum(x)"),
    *("histogram(c)", "count where c = 'a'", "count where x is missing rows 1"),
)
GATE = 7
"""An advisory lock: the reading of a view with `gate()` waits while the test has it."""


@pytest.fixture(scope="module", autouse=True)
def functions(server: PostgresqlServer) -> None:
    server.run(
        "CREATE TABLE shown (x integer)",
        "INSERT INTO shown VALUES (1)",
        # A volatile function has a snapshot of its own for each statement, outside REPEATABLE READ.
        "CREATE FUNCTION gate(integer) RETURNS integer VOLATILE LANGUAGE plpgsql AS $$ BEGIN "
        f"PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN (SELECT x FROM public.shown); "
        "END $$",
        "CREATE VIEW gated AS SELECT i::text AS unit, gate(i) AS x, 'a' AS c, true AS t "
        "FROM generate_series(1, 3) AS i",
    )


def problem(
    settings: PostgresqlSource,
    *names: str,
    interruptible: Callable[[Interruption], None] = lambda _: None,
) -> SourceProblem | None:
    """Return why columns cannot be read, None if they can."""
    try:
        columns = names or ("unit", "x", "c", "t")
        with connected(settings, columns, interruptible=interruptible):
            return None
    except SourceProblem as error:
        return error


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the server."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 10)):
        if is_so():
            return
        pause.wait(0.1)
    pytest.fail("the server did not come to it")


@pytest.fixture
def at_work() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as one:
        yield one


def begun(
    server: PostgresqlServer,
    at_work: ThreadPoolExecutor,
    settings: PostgresqlSource,
    interruptible: Callable[[Interruption], None] = lambda _: None,
) -> Future[SourceProblem | None]:
    """Begin to read a source, and return once it waits for a lock."""
    reading = at_work.submit(problem, settings, interruptible=interruptible)
    with server.connect() as connection:

        def waits() -> bool:
            (count,) = connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE usename = 'reader' AND wait_event_type = 'Lock'"
            ).fetchone() or (0,)
            return bool(count)

        until(waits)
    return reading


# -- what is read


def test_a_table_has_the_statistics_of_the_reference(
    server: PostgresqlServer, tmp_path: Path
) -> None:
    draw = random.Random(5)
    columns = ("unit", "x", "c", "t")
    rows = [
        (
            draw.choice(["u", "v", "w", "", "ж" * 40, None, *map(str, range(90))]),
            draw.choice([-5.0, 0.5, 1.5, 2.0, None, float("nan"), 1e300]),
            draw.choice(["a", "b", "A", "", None]),
            draw.choice([True, False, None]),
        )
        for _ in range(2000)
    ]
    server.run('CREATE TABLE "the.rows" (unit text, x float8, c varchar, t boolean)')
    with (
        server.connect() as connection,
        connection.cursor() as cursor,
        cursor.copy('COPY "the.rows" FROM STDIN') as copying,
    ):
        for row in rows:
            copying.write_row(row)
    settings = server.source(tmp_path, 'public."the.rows"')
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    for text in (
        *QUESTIONS,
        "variance(x) by c",
        "median(x)",
        "top(c, 1)",
        "mean(x) where t = true",
    ):
        checked = asked(text, small_schema(rows=3), "postgresql")
        assert statistics_of_file(settings, checked, key=b"k") == evaluate(
            checked, table, key=b"k"
        ), text


def test_names_are_compared_exactly(server: PostgresqlServer, tmp_path: Path) -> None:
    odd = 'we"ird {x} %s'
    quoted = odd.replace('"', '""')
    server.run(
        f'CREATE TABLE "{quoted}" (id text, "ID" text, age integer, "AGE" integer, "Age" text)',
        f"""INSERT INTO "{quoted}" VALUES ('1', '8', 1, 20, '3'), ('1', '9', 1, 20, '3')""",
    )
    settings = server.source(tmp_path, f'"{quoted}"')
    for unit, name, total in (
        *(("id", "age", 1), ("id", "AGE", 20), ("ID", "Age", 6), ("ID", "AGE", 40)),
        *(("ID", "aGE", 0), ("Id", "age", 0)),
    ):
        schema = check_schema(
            Schema(
                source=SOURCE,
                columns=(NumberColumn(name=name, lower="0", upper="99"),),
                unit=UnitColumn(column=unit, rows=1),
                neighbours="replace",
            )
        )
        checked = asked(f"sum({name})", schema, "postgresql")
        assert statistics_of_file(settings, checked, key=b"") == ((total,),), (unit, name)


def test_operators_of_the_user_are_not_used(server: PostgresqlServer, tmp_path: Path) -> None:
    server.run(
        "CREATE SCHEMA mine",
        "GRANT USAGE ON SCHEMA mine TO reader",
        "CREATE FUNCTION mine.floor(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 1.0'",
        "CREATE FUNCTION mine.mul(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 1.0'",
        "CREATE OPERATOR mine.* (FUNCTION = mine.mul, LEFTARG = numeric, RIGHTARG = numeric)",
        "CREATE TABLE mine.t AS SELECT 'u' AS unit, 2::numeric AS x",
        "CREATE TABLE public.t AS SELECT 'u' AS unit, 3::numeric AS x",
        "ALTER ROLE reader SET search_path = mine, pg_catalog, public",
    )
    try:
        for table, total in (("t", 3), ("public.t", 3)):
            checked = asked("sum(x)", small_schema(upper="9"), "postgresql")
            settings = server.source(tmp_path, table)
            assert statistics_of_file(settings, checked, key=b"") == ((total,),)
    finally:
        server.run("ALTER ROLE reader RESET search_path")


def test_columns_that_no_schema_declares_need_no_right(
    server: PostgresqlServer, tmp_path: Path
) -> None:
    server.run(
        "CREATE TABLE partly AS SELECT 'u' AS unit, 2 AS x, 'a' AS c, true AS t, 'no' AS diagnosis",
        "REVOKE ALL ON partly FROM reader",
        "GRANT SELECT (unit, x, c, t) ON partly TO reader",
    )
    settings = server.source(tmp_path, "partly")
    assert problem(settings) is None
    assert "may not read the table (SQLSTATE 42501)" in str(problem(settings, "diagnosis"))


def test_nothing_is_written(server: PostgresqlServer, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE written (i integer)",
        "GRANT INSERT ON written TO reader",
        "CREATE FUNCTION written() RETURNS integer VOLATILE LANGUAGE sql AS "
        "'INSERT INTO public.written VALUES (1) RETURNING i'",
        "CREATE VIEW writing AS SELECT 'u' AS unit, written() AS x",
    )
    found = problem(server.source(tmp_path, "writing"))
    assert "SQLSTATE 25006" in str(found)
    assert not isinstance(found, EnvironmentProblem)


def test_more_than_the_memory_goes_to_the_disk(server: PostgresqlServer, tmp_path: Path) -> None:
    server.run(
        "CREATE VIEW large AS SELECT repeat(sha256(i::text::bytea)::text, 100) AS unit, 1 AS x "
        "FROM generate_series(1, 25000) AS i"
    )
    settings = server.source(tmp_path, "large", memory_mb=128)
    with connected(settings, {"unit", "x"}) as opened:
        (table,) = opened.tables
        found = run(opened.connection, f"SELECT count(*), sum(strlen(t.x0)) FROM {table.sql}")
    assert found == [(25000, 165_000_000)]


# -- one verdict, of one snapshot


@pytest.mark.parametrize(
    "computed", ["100 / (x - 2)", "c::integer", "CASE WHEN t THEN refuse(c) ELSE 1 END"]
)
def test_what_a_view_computes_shows_nobody(
    computed: str,
    server: PostgresqlServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server.run(
        "DROP TABLE IF EXISTS person CASCADE",
        "CREATE OR REPLACE FUNCTION refuse(said text) RETURNS integer IMMUTABLE "
        "LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', said; RAISE EXCEPTION '%', said; END $$",
        "CREATE TABLE person AS SELECT i::text AS unit, CASE WHEN i = 7 THEN 2 ELSE 1 END AS x, "
        f"CASE WHEN i = 7 THEN '{SECRET}' ELSE '1' END AS c, i = 7 AS t "
        "FROM generate_series(1, 21000) AS i",
        f"CREATE VIEW every AS SELECT unit, {computed} AS x, c, t FROM person",
        f"CREATE VIEW others AS SELECT unit, {computed} AS x, c, t FROM person WHERE NOT t",
        f"CREATE VIEW unasked AS SELECT unit, 1 AS x, c, t, {computed} AS y FROM person",
    )
    for table, verdict in (("every", UNREADABLE), ("others", None), ("unasked", None)):
        sources = DataSources({"census": server.source(tmp_path, table)})
        found = set[str | None]()
        caplog.clear()
        for text in QUESTIONS:
            try:
                sources.statistics(asked(text, small_schema(), "postgresql"), key=b"")
            except SourceUnreadable as error:
                found.add(str(error))
            else:
                found.add(None)
        assert found == {verdict}
        assert len({record.getMessage() for record in caplog.records}) == (verdict is not None)
        assert SECRET not in caplog.text
        assert SECRET not in capfd.readouterr().err


def test_texts_that_are_not_utf_8_show_nobody(
    server: PostgresqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    server.run(
        "CREATE TABLE odd AS SELECT i::text AS unit, 1 AS x, "
        f"CASE WHEN i = 7 THEN E'{SECRET}\\xff' ELSE 'a' END AS c, i = 7 AS t "
        "FROM generate_series(1, 400) AS i",
        "GRANT SELECT ON odd TO reader",
        database="ascii",
    )
    settings = server.source(tmp_path, "odd")
    Path(settings.connection_file).write_text(server.address("ascii"))
    sources = DataSources({"census": settings})
    for text in QUESTIONS:
        with pytest.raises(SourceUnreadable):
            sources.statistics(asked(text, small_schema(), "postgresql"), key=b"")
    assert len({record.getMessage() for record in caplog.records}) == 1
    assert SECRET not in caplog.text


def test_a_reading_has_one_snapshot(
    server: PostgresqlServer, tmp_path: Path, at_work: ThreadPoolExecutor
) -> None:
    settings = server.source(tmp_path, "gated")
    checked = asked("sum(x)", small_schema(), "postgresql")
    with server.connect() as owner:
        owner.execute(f"SELECT pg_advisory_lock({GATE})".encode())
        reading = at_work.submit(statistics_of_file, settings, checked, key=b"")
        with server.connect() as connection:
            until(
                lambda: bool(
                    connection.execute(
                        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                    ).fetchall()
                )
            )
        owner.execute("UPDATE shown SET x = 2")
        owner.execute(f"SELECT pg_advisory_unlock({GATE})".encode())
    assert reading.result() == ((3,),)
    assert statistics_of_file(settings, checked, key=b"") == ((6,),)
    server.run("UPDATE shown SET x = 1")


def test_columns_that_change_before_they_are_read_are_noticed(
    server: PostgresqlServer, tmp_path: Path, at_work: ThreadPoolExecutor
) -> None:
    server.run("CREATE TABLE changing AS SELECT 'u' AS unit, 1 AS x, 'a' AS c, true AS t")
    settings = server.source(tmp_path, "changing")
    with server.connect() as owner, owner.transaction():
        owner.execute("ALTER TABLE changing ALTER x TYPE numeric(9, 2)")
        reading = begun(server, at_work, settings)
    found = reading.result()
    assert isinstance(found, EnvironmentProblem)
    assert "changed" in str(found)
    assert problem(settings) is None


# -- the environment


def test_a_lock_ends_with_the_time_of_the_source(server: PostgresqlServer, tmp_path: Path) -> None:
    server.run("CREATE TABLE locked (unit text)")
    settings = server.source(tmp_path, "locked", seconds=1)
    with server.connect() as owner, owner.transaction():
        owner.execute("LOCK TABLE locked")
        found = problem(settings)
    assert isinstance(found, EnvironmentProblem)
    assert str(found) == "reading it took too long"
    assert problem(server.source(tmp_path, "locked")) is None


def test_a_server_that_hangs_holds_nobody(
    server: PostgresqlServer, tmp_path: Path, at_work: ThreadPoolExecutor
) -> None:
    settings = server.source(tmp_path, "gated")
    interruptions = list[Interruption]()
    with server.connect() as owner:
        owner.execute(f"SELECT pg_advisory_lock({GATE})".encode())
        reading = begun(server, at_work, settings, interruptions.append)
        (backend,) = server.backends()
        os.kill(backend, signal.SIGSTOP)
        try:
            # As the time limit of a source and the end of a process do.
            interruptions[0].interrupt()
            assert isinstance(reading.result(PATIENCE_S), EnvironmentProblem)
        finally:
            os.kill(backend, signal.SIGCONT)
    until(lambda: not server.backends())


def test_a_lost_connection_is_of_the_environment(
    server: PostgresqlServer, tmp_path: Path, at_work: ThreadPoolExecutor
) -> None:
    settings = server.source(tmp_path, "gated")
    with server.connect() as owner:
        owner.execute(f"SELECT pg_advisory_lock({GATE})".encode())
        reading = begun(server, at_work, settings)
        (backend,) = server.backends()
        owner.execute("SELECT pg_terminate_backend(%s)", [backend])
        assert isinstance(reading.result(PATIENCE_S), EnvironmentProblem)


def test_an_interruption_ends_what_is_waited_for(
    server: PostgresqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources = DataSources({"census": server.source(tmp_path, "gated")})
    schema = with_source(small_schema(), "postgresql")
    with server.connect() as owner:
        owner.execute(f"SELECT pg_advisory_lock({GATE})".encode())
        reading = threading.Thread(target=sources.read_ahead, args=(schema,))
        reading.start()
        until(lambda: bool(server.backends()))

        def ended() -> bool:
            sources.interrupt()  # between two statements it is lost
            return not reading.is_alive()

        until(ended)
    assert "source_not_read_ahead" in caplog.text
    assert sources.statistics(asked("count", small_schema(), "postgresql"), key=b"") == ((3,),)


def test_a_server_that_is_away_is_of_the_environment(
    server: PostgresqlServer, tmp_path: Path
) -> None:
    server.run("CREATE TABLE IF NOT EXISTS away (unit text)")
    settings = server.source(tmp_path, "away")
    server.stop()
    try:
        assert isinstance(problem(settings), EnvironmentProblem)
    finally:
        server.start()
    assert problem(settings) is None


# -- words


def test_no_failure_names_the_password_or_a_cell(
    server: PostgresqlServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run(
        "CREATE TABLE private AS SELECT 'u' AS unit",
        "REVOKE ALL ON private FROM reader",
        f"CREATE VIEW cell AS SELECT '{SECRET}' || i::text AS unit, "
        f"('{SECRET}' || i::text)::integer AS x FROM generate_series(1, 9) AS i",
    )
    settings = server.source(tmp_path, "gated")
    file = Path(settings.connection_file)
    texts = {
        "another password": server.address().replace(PASSWORD, f"{PASSWORD}x"),
        "another database": server.address(database="absent"),
        "another user": server.address(user="absent"),
        "no connection's text": f"host = 127.0.0.1 {PASSWORD}",
        "an unknown word": f"{server.address()} pasword={PASSWORD}",
        "bytes": f"{PASSWORD}\udcff",
    }
    failing = dict[str, PostgresqlSource]()
    for i, (name, text) in enumerate(texts.items()):
        other = file.with_name(f"{i}.txt")
        other.touch(mode=0o600)
        other.write_bytes(text.encode(errors="surrogateescape"))
        failing[name] = PostgresqlSource(connection_file=str(other), table="gated")
    failing |= {
        table: PostgresqlSource(connection_file=str(file), table=table)
        for table in ("private", "absent", "cell", "absent.gated", "PRIVATE")
    }
    checked = asked("count", small_schema(), "postgresql")
    for name, source in failing.items():
        caplog.clear()
        with caplog.at_level(logging.DEBUG), pytest.raises(SourceUnreadable) as raised:
            statistics_of_file(source, checked, key=b"")
        assert str(raised.value) == UNREADABLE
        assert raised.value.__context__ is None
        is_of_the_table = name in ("private", "absent", "cell", "absent.gated", "PRIVATE")
        event = "source_unreadable" if is_of_the_table else "source_away"
        assert event in caplog.text, name
        assert SECRET not in caplog.text, name
        assert PASSWORD not in caplog.text, name
        assert isinstance(problem(source), EnvironmentProblem) is not is_of_the_table, name
    file.chmod(0o644)
    assert isinstance(problem(settings), EnvironmentProblem)
