"""POST an alert to the operator's webhook, and decide when to retry."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from accountant.records import encode
from accountant.views.datasets import Alert
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.error_words import meaning_of
from streams.settings import Settings
from streams.telemetry.logs import get_logger
from streams.webhook_post import WHOLE_S, WebhookPoster

_log = get_logger(__name__)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
# With these the receiver says that it will never accept the record.
_REJECTED: Final = frozenset({400, 413, 415, 422})


class DeliveryResult(Enum):
    """The result of one attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REJECTED = "rejected"


class Attempt(NamedTuple):
    """One attempt: its result, and the reason in words without a secret."""

    answer: DeliveryResult
    why: str = ""


class AlertWebhook:
    """Posts alerts to one address. It belongs to the event loop of the first `post`.

    Args:
        url: http(s)://host..., checked by the settings.
        authorization, whole: see `WebhookPoster`.
    """

    def __init__(
        self, url: str, authorization: str | None = None, *, whole: float = WHOLE_S
    ) -> None:
        self._poster = WebhookPoster(url, "application/json", authorization, whole=whole)

    async def post(self, alert: Alert) -> Attempt:
        """Try once. Raises only when cancelled."""
        try:
            status = await self._poster.post(encode(alert), {IDEMPOTENCY_KEY: alert.alert_id})
        except Exception as error:
            return Attempt(DeliveryResult.RETRY, meaning_of(error))
        if 200 <= status < 300:
            return Attempt(DeliveryResult.DELIVERED)
        return Attempt(
            DeliveryResult.REJECTED if status in _REJECTED else DeliveryResult.RETRY,
            f"status {status}",
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()


class DeliveryAttempts:
    """The attempts for one alert: the pause before the next, and when to give up.

    Args:
        now: seconds of a steady clock, when the alert arrived.
        patience: seconds until the last attempt.
    """

    def __init__(
        self,
        alert: Alert,
        counts: AlertDeliveryMetrics,
        *,
        now: float,
        patience: float,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.alert = alert
        self._counts = counts
        self._until = now + patience
        self._chance = chance
        self._tries = 0

    def pause(self, attempt: Attempt, now: float) -> float | None:
        """Count an attempt; return the seconds until the next, None if there is none."""
        self._tries += 1
        if attempt.answer is DeliveryResult.DELIVERED:
            self._counts.add("webhook", "delivered")
            return None
        if attempt.answer is DeliveryResult.REJECTED or now >= self._until:
            self._counts.add("webhook", "given_up")
            _log.error(
                "alert_given_up",
                to="webhook",
                alert=self.alert.alert_id,
                tries=self._tries,
                why=attempt.why,
            )
            return None
        self._counts.add("webhook", "failed")
        _log.warning("alert_not_taken", alert=self.alert.alert_id, why=attempt.why)
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._tries - 1, 10))
        # Add jitter, so that the senders do not all return to a recovered receiver at once.
        return min(longest * (0.5 + 0.5 * self._chance()), max(0.0, self._until - now))


def webhook_of(settings: Settings) -> AlertWebhook | None:
    """Return the webhook in the settings; None without one."""
    if settings.alert_webhook is None:
        return None
    secret = settings.alert_webhook_authorization
    url = settings.alert_webhook.get_secret_value()
    _log.info("alert_webhook", host=urlsplit(url).hostname, authorized=secret is not None)
    return AlertWebhook(url, None if secret is None else secret.get_secret_value())
