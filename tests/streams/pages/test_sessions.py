"""Sessions are bounded in number, by name and in time."""

from __future__ import annotations

from streams.auth.principal import Principal
from streams.pages.sessions import IDLE_S, LIFETIME_S, MAX_SESSIONS, MAX_SESSIONS_OF_ONE, Sessions

ANA = Principal("ana", "token", administrator=False)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def test_a_name_has_its_latest_sessions() -> None:
    sessions = Sessions(Hand())
    ids = [sessions.begin(ANA, "t") for _ in range(MAX_SESSIONS_OF_ONE + 3)]
    found = [sessions.find(each) is not None for each in ids]
    assert found == [False] * 3 + [True] * MAX_SESSIONS_OF_ONE


def test_all_together_are_bounded_and_the_longest_unused_goes() -> None:
    sessions = Sessions(Hand())
    ids = [
        sessions.begin(Principal(f"a{number}", "token", administrator=False), "t")
        for number in range(MAX_SESSIONS)
    ]
    assert sessions.find(ids[0]) is not None
    sessions.begin(ANA, "t")
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(ids[1]) is None
    assert sessions.find(ids[0]) is not None


def test_what_is_over_is_forgotten_with_its_token() -> None:
    now = Hand()
    sessions = Sessions(now)
    sessions.begin(ANA, "t")
    now.at += IDLE_S
    assert sessions.find("x") is None
    assert len(sessions) == 0
    kept = sessions.begin(ANA, "t")
    for _ in range(3):
        now.at += LIFETIME_S / 4
        assert sessions.find(kept) is not None
    now.at += LIFETIME_S / 4
    assert sessions.find(kept) is None
    assert len(sessions) == 0


def test_a_session_shows_no_token() -> None:
    sessions = Sessions(Hand())
    found = sessions.find(sessions.begin(ANA, "a-secret"))
    assert found is not None
    assert found.token == "a-secret"
    assert "a-secret" not in repr(found)
