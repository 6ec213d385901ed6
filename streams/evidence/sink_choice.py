"""Makes sinks from addresses and settings. The maker of topic sinks arrives as an argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streams.errors import NotInstalled, Refused
from streams.evidence.sink_sender import Senders
from streams.evidence.sinks import Address, ReadableSink, Sink, address_of, addresses_of
from streams.evidence.store import Directory
from streams.settings import Settings
from streams.tasks.background import THREADS, Background

TopicSink = Callable[[Address, Settings], ReadableSink]
"""Returns the topic at an address. Raises: Refused, NotInstalled."""


def sink_at(text: str, settings: Settings, topic_sink: TopicSink) -> Sink:
    """Return the sink at an address.

    Raises: Refused: it is not an address of a sink; NotInstalled: topics need the extra `kafka`.
    """
    address = address_of(text, unencrypted=settings.checkpoint_places_unencrypted)
    return _make_sink(address, settings, topic_sink, must_exist=False)


def readable_sink_at(text: str, settings: Settings, topic_sink: TopicSink) -> ReadableSink:
    """Return a sink whose checkpoints can be read.

    Raises: Refused: as for `sink_at`, or it is a webhook.
    """
    address = address_of(text, unencrypted=True)  # nothing is sent there
    if address.kind == "webhook":
        raise Refused(
            f"{address.name} is a webhook, whose checkpoints cannot be read back. Ask its operator "
            "for them as files NAME.note in a directory, and name that directory"
        )
    if address.kind == "topic":
        return topic_sink(address, settings)
    return Directory(Path(address.target))


def checkpoint_senders(
    settings: Settings,
    topic_sink: TopicSink | None,
    *,
    stored: bool,
    background: Background = THREADS,
) -> Senders:
    """Return the senders to the sinks in ACCOUNTANT_CHECKPOINT_PLACES.

    Args:
        topic_sink: None if this program cannot send to topics.
        stored: whether this process stores checkpoints; only those are sent.

    Raises: Refused: as for `sink_at`, or no checkpoints are stored.
    """
    names, name = settings.checkpoint_places, "ACCOUNTANT_CHECKPOINT_PLACES"
    if not stored:
        raise Refused(f"{name} is set, but no checkpoints are stored: set ACCOUNTANT_CHECKPOINTS")
    unencrypted = settings.checkpoint_places_unencrypted
    try:
        text = "" if names is None else names.get_secret_value()
        addresses = addresses_of(text, unencrypted=unencrypted)
        sinks = [_make_sink(each, settings, topic_sink, must_exist=True) for each in addresses]
    except NotInstalled:
        raise
    except Refused as error:
        raise Refused(f"setting {name}: {error}") from None
    webhooks = sum(sink.kind == "webhook" for sink in sinks)
    if settings.checkpoint_places_authorization is not None and webhooks > 1:
        raise Refused(
            f"setting {name}_AUTHORIZATION: {webhooks} webhooks would get the same "
            "secret: name one webhook at most"
        )
    return Senders(sinks, settings.checkpoint_places_seconds, background=background)


def _make_sink(
    address: Address, settings: Settings, topic_sink: TopicSink | None, *, must_exist: bool
) -> Sink:
    if address.kind == "directory":
        return Directory(Path(address.target), must_exist=must_exist)
    if address.kind == "topic":
        if topic_sink is None:
            raise Refused(f"{address.name} is a topic, and this program cannot send to topics")
        return topic_sink(address, settings)
    from streams.evidence.sink_webhook import CheckpointWebhook

    secret = settings.checkpoint_places_authorization
    authorization = None if secret is None else secret.get_secret_value()
    return CheckpointWebhook(address.target, address.name, authorization)
