"""Sessions are bounded in number, by name and in time."""

from __future__ import annotations

from streams.auth.principal import Principal
from streams.pages.login.browser_sessions import (
    IDLE_S,
    LIFETIME_S,
    MAX_SESSIONS,
    MAX_SESSIONS_OF_ONE,
    BrowserSessions,
)

ANA = Principal("ana", "token", administrator=False)


class ManualClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def test_a_caller_keeps_only_the_latest_sessions() -> None:
    sessions = BrowserSessions(ManualClock())
    ids = [sessions.begin(ANA, "t") for _ in range(MAX_SESSIONS_OF_ONE + 3)]
    found = [sessions.find(each) is not None for each in ids]
    assert found == [False] * 3 + [True] * MAX_SESSIONS_OF_ONE


def test_above_the_session_limit_the_longest_unused_one_ends() -> None:
    sessions = BrowserSessions(ManualClock())
    ids = [
        sessions.begin(Principal(f"a{number}", "token", administrator=False), "t")
        for number in range(MAX_SESSIONS)
    ]
    assert sessions.find(ids[0]) is not None
    sessions.begin(ANA, "t")
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(ids[1]) is None
    assert sessions.find(ids[0]) is not None


def test_an_expired_session_is_deleted_with_its_token() -> None:
    now = ManualClock()
    sessions = BrowserSessions(now)
    sessions.begin(ANA, "t")
    now.at += IDLE_S
    assert sessions.find("x") is None
    assert len(sessions) == 0
    session_id = sessions.begin(ANA, "t")
    for _ in range(3):
        now.at += LIFETIME_S / 4
        assert sessions.find(session_id) is not None
    now.at += LIFETIME_S / 4
    assert sessions.find(session_id) is None
    assert len(sessions) == 0


def test_the_repr_of_a_session_shows_no_token() -> None:
    sessions = BrowserSessions(ManualClock())
    found = sessions.find(sessions.begin(ANA, "a-secret"))
    assert found is not None
    assert found.token == "a-secret"
    assert "a-secret" not in repr(found)
