"""One POST of an alert to the address that an operator gave, and when to try again."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from accountant.records import encode
from accountant.views.datasets import Alert
from streams.alerts.delivery_metrics import AlertCounts
from streams.logs import get_logger
from streams.settings import Settings
from streams.webhook_post import WHOLE_S, WebhookPoster

_log = get_logger(__name__)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
# The receiver has understood the record and will never take it.
_NEVER: Final = frozenset({400, 413, 415, 422})


class DeliveryResult(Enum):
    """What a receiver has answered to one attempt."""

    DELIVERED = "taken"
    RETRY = "again"
    REJECTED = "never"


class Tried(NamedTuple):
    """One try: what became of it, and why, in words that hold no secret."""

    answer: DeliveryResult
    why: str = ""


class AlertWebhook:
    """An address that takes alerts. Belongs to the event loop that first posts.

    Args:
        url: http(s)://host..., checked by the settings.
        authorization, whole: as of `WebhookPoster`.
    """

    def __init__(
        self, url: str, authorization: str | None = None, *, whole: float = WHOLE_S
    ) -> None:
        self._poster = WebhookPoster(url, "application/json", authorization, whole=whole)

    async def post(self, alert: Alert) -> Tried:
        """Try once. Never raises but when cancelled."""
        try:
            status = await self._poster.post(encode(alert), {IDEMPOTENCY_KEY: alert.alert_id})
        except Exception as error:
            return Tried(DeliveryResult.RETRY, type(error).__name__)
        if 200 <= status < 300:
            return Tried(DeliveryResult.DELIVERED)
        return Tried(
            DeliveryResult.REJECTED if status in _NEVER else DeliveryResult.RETRY,
            f"status {status}",
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()


class Trying:
    """One alert's tries: how long to wait for the next, and when to give up.

    Args:
        now: seconds of a steady clock, when the alert came.
        patience: seconds after which it is given up; the last try is made then.
    """

    def __init__(
        self,
        alert: Alert,
        counts: AlertCounts,
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

    def pause(self, tried: Tried, now: float) -> float | None:
        """Count a try; return the seconds until the next, None where there is to be none."""
        self._tries += 1
        if tried.answer is DeliveryResult.DELIVERED:
            self._counts.add("webhook", "delivered")
            return None
        if tried.answer is DeliveryResult.REJECTED or now >= self._until:
            self._counts.add("webhook", "given_up")
            told = {"alert": self.alert.alert_id, "tries": self._tries, "why": tried.why}
            _log.error("alert_given_up", to="webhook", **told)
            return None
        self._counts.add("webhook", "failed")
        _log.warning("alert_not_taken", alert=self.alert.alert_id, why=tried.why)
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._tries - 1, 10))
        # Spread out: receivers that come back are not met by every sender at once.
        return min(longest * (0.5 + 0.5 * self._chance()), max(0.0, self._until - now))


def webhook_of(settings: Settings) -> AlertWebhook | None:
    """Return the webhook that the settings name, None without one."""
    if settings.alert_webhook is None:
        return None
    given = settings.alert_webhook_authorization
    url = settings.alert_webhook.get_secret_value()
    _log.info("alert_webhook", host=urlsplit(url).hostname, authorized=given is not None)
    return AlertWebhook(url, None if given is None else given.get_secret_value())
