"""The addresses of sinks: valid ones are parsed, errors repeat no secret."""

from __future__ import annotations

import pytest

from streams.errors import Refused
from streams.evidence.sinks import address_of, addresses_of

GOOD = {
    "kept": ("directory", "kept", "kept", ""),
    "/mnt/a,b/kept": ("directory", "/mnt/a,b/kept", "/mnt/a,b/kept", ""),
    "kafka://h:9092/notes": ("topic", "h:9092", "kafka://h:9092/notes", "notes"),
    "kafka://h:1,[::1]:2/a.b-c_d": (
        "topic",
        "h:1,[::1]:2",
        "kafka://h:1,[::1]:2/a.b-c_d",
        "a.b-c_d",
    ),
    "https://h.org/SECRET?a=SECRET": (
        "webhook",
        "https://h.org/SECRET?a=SECRET",
        "https://h.org",
        "",
    ),
    "http://127.0.0.7:80/x": ("webhook", "http://127.0.0.7:80/x", "http://127.0.0.7:80", ""),
    "http://[::1]/x": ("webhook", "http://[::1]/x", "http://[::1]", ""),
    "http://localhost/x": ("webhook", "http://localhost/x", "http://localhost", ""),
}


@pytest.mark.parametrize("text", GOOD)
def test_an_address_is_parsed_into_kind_and_target(text: str) -> None:
    assert tuple(address_of(text)) == GOOD[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\0b",
        "kafka://h:9092",
        "kafka://h:9092/",
        "kafka://h:9092/..",
        "kafka://h:9092/a/b",
        "kafka://h:9092/a b",
        "kafka://h/notes",
        "kafka:h:9092/notes",
        "kafka://SECRET@h:9092/notes",
        "https:/h/SECRET",
        "https://",
        "https://u:SECRET@h/",
        "https://h:0/SECRET",
        "https://h:99999/SECRET",
        "https://h/SECRET#x",
        "https://h/\nSECRET",
        "https://h/ SECRET",
        "https://[::/SECRET",
        "http://h.example.org/SECRET",
        "http://127.0.0.1.example.org/SECRET",
        "http://192.0.2.7/SECRET",
        "ftp://h/SECRET",
        "file:///SECRET",
        "sqlite:///SECRET",
    ],
)
def test_an_invalid_sink_address_is_refused_without_its_secret(text: str) -> None:
    for parse in (address_of, addresses_of):
        with pytest.raises(Refused) as refused:
            parse(text)
        assert "SECRET" not in str(refused.value)


def test_http_to_other_machines_needs_the_setting() -> None:
    text = "http://h.example.org/SECRET"
    assert address_of(text, unencrypted=True).name == "http://h.example.org"


def test_a_list_of_sinks_is_split_only_between_addresses() -> None:
    text = "/mnt/kept, kafka://a:1,b:2/notes,https://h/x?y=1,2,/srv/other"
    assert [each.target for each in addresses_of(text)] == [
        "/mnt/kept",
        "a:1,b:2",
        "https://h/x?y=1,2",
        "/srv/other",
    ]
    with pytest.raises(Refused, match="must be an absolute path"):
        addresses_of("kept,kafka://a:1/notes")
