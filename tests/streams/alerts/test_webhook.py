"""One alert to a real receiver: its content, its retries, and the hidden secrets."""

from __future__ import annotations

import logging
import traceback

import pytest

from accountant.records import encode
from accountant.views.datasets import decode_alert
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.webhook import AlertWebhook, Attempt, DeliveryAttempts, DeliveryResult
from streams.errors import Refused
from streams.settings import load
from tests.streams.alerts.receiver import Receiver
from tests.streams.alerts.test_delivered_ids import alert

SECRET = "Bearer s3cret-of-the-header"


async def test_the_receiver_gets_the_record_with_its_id_as_the_key() -> None:
    with Receiver() as receiver:
        webhook = AlertWebhook(receiver.url, SECRET)
        assert await webhook.post(alert("0.5")) == Attempt(DeliveryResult.DELIVERED)
        await webhook.close()
    (post,) = receiver.posts
    assert post.path == "/hook/T0-path-secret"
    assert (post.key, post.authorization) == ("census/1/0.5", SECRET)
    assert decode_alert(encode(post.body)) == alert("0.5")


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, DeliveryResult.DELIVERED),
        (202, DeliveryResult.DELIVERED),
        (302, DeliveryResult.RETRY),
        (401, DeliveryResult.RETRY),
        (404, DeliveryResult.RETRY),
        (408, DeliveryResult.RETRY),
        (429, DeliveryResult.RETRY),
        (500, DeliveryResult.RETRY),
        (503, DeliveryResult.RETRY),
        (400, DeliveryResult.REJECTED),
        (413, DeliveryResult.REJECTED),
        (422, DeliveryResult.REJECTED),
    ],
)
async def test_each_status_has_its_delivery_result(status: int, answer: DeliveryResult) -> None:
    with Receiver(status) as receiver:
        webhook = AlertWebhook(receiver.url)
        attempt = await webhook.post(alert("0.5"))
        await webhook.close()
    assert attempt.answer is answer
    assert len(receiver.posts) == 1, "a redirection is not followed"
    assert receiver.posts[0].authorization is None


async def test_a_receiver_that_is_down_or_too_slow_is_tried_again() -> None:
    receiver = Receiver(slow=1.0)
    slow = AlertWebhook(receiver.url, whole=0.2)
    assert await slow.post(alert("0.5")) == Attempt(DeliveryResult.RETRY, "no answer came in time")
    receiver.down()
    attempt = await slow.post(alert("0.5"))
    assert attempt.answer is DeliveryResult.RETRY
    assert attempt.why == "there is no connection"
    receiver.slow = 0.0
    receiver.up()
    assert (await slow.post(alert("0.5"))).answer is DeliveryResult.DELIVERED
    await slow.close()
    receiver.down()
    assert {post.key for post in receiver.posts} == {"census/1/0.5"}


async def test_no_secret_is_logged_whatever_the_receiver_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    counts = AlertDeliveryMetrics()
    with Receiver(500, 422) as receiver:
        webhook = AlertWebhook(receiver.url, SECRET)
        attempts = DeliveryAttempts(alert("0.5"), counts, now=0, patience=60)
        for _ in range(2):
            attempts.pause(await webhook.post(alert("0.5")), 1)
        receiver.down()
        attempts.pause(await webhook.post(alert("0.5")), 2)
        await webhook.close()
    assert "alert_given_up" in caplog.text
    assert "alert_not_taken" in caplog.text
    assert "s3cret" not in caplog.text
    assert "path-secret" not in caplog.text


def test_pauses_grow_with_jitter_and_end() -> None:
    counts = AlertDeliveryMetrics()
    pauses: list[float] = []
    attempts = DeliveryAttempts(alert("0.5"), counts, now=0, patience=600, chance=lambda: 0.5)
    now = 0.0
    while (pause := attempts.pause(Attempt(DeliveryResult.RETRY, "status 503"), now)) is not None:
        pauses.append(pause)
        now += pause
    assert pauses[:7] == [0.75, 1.5, 3.0, 6.0, 12.0, 24.0, 45.0]
    assert max(pauses) == 45.0
    assert now == 600, "the last try is made when patience ends"
    assert counts.of("webhook", "given_up") == 1
    assert counts.of("webhook", "failed") == len(pauses)
    spread = {
        DeliveryAttempts(alert("0.5"), counts, now=0, patience=60).pause(
            Attempt(DeliveryResult.RETRY), 0
        )
        for _ in range(20)
    }
    assert len(spread) > 10
    assert all(pause is not None and 0.5 <= pause <= 1 for pause in spread)


def test_a_rejected_alert_is_given_up_at_once() -> None:
    counts = AlertDeliveryMetrics()
    attempts = DeliveryAttempts(alert("0.5"), counts, now=0, patience=600)
    assert attempts.pause(Attempt(DeliveryResult.REJECTED, "status 422"), 0) is None
    assert (counts.of("webhook", "given_up"), counts.of("webhook", "failed")) == (1, 0)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/s3cret",
        "host/s3cret",
        "file:///s3cret",
        "http:///s3cret",
        "https://me:s3cret@host/",
        "http://host:port/s3cret",
        "http://host/s3 cret",
        "http://host/#s3cret",
        "http://h\u00f6st/s3cret",
    ],
)
def test_an_invalid_address_refuses_the_start_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ACCOUNTANT_ALERT_WEBHOOK", url)
    with pytest.raises(Refused, match="ACCOUNTANT_ALERT_WEBHOOK") as refused:
        load()
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))


def test_a_header_that_would_break_the_request_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACCOUNTANT_ALERT_WEBHOOK_AUTHORIZATION", "s3cret\r\nX-Other: 1")
    with pytest.raises(Refused, match="ALERT_WEBHOOK_AUTHORIZATION") as refused:
        load()
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))


def test_the_settings_text_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_ALERT_WEBHOOK", "https://host/s3cret")
    monkeypatch.setenv("ACCOUNTANT_ALERT_WEBHOOK_AUTHORIZATION", "s3cret")
    settings = load()
    assert settings.alert_webhook is not None
    assert "s3cret" not in f"{settings} {settings!r} {settings.model_dump_json()}"
    monkeypatch.setenv("ACCOUNTANT_ALERT_WEBHOOK", "")
    assert load().alert_webhook is None
