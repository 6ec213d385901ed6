"""The places that addresses and settings name. What makes a topic one comes as an argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streams.background import THREADS, Background
from streams.errors import NotInstalled, Refused
from streams.evidence.sink_sender import Senders
from streams.evidence.sinks import Address, Place, ReadablePlace, address_of, addresses_of
from streams.evidence.store import Directory
from streams.settings import Settings

TopicSink = Callable[[Address, Settings], ReadablePlace]
"""Returns the topic at an address. Raises: Refused, NotInstalled."""


def place_of(text: str, settings: Settings, topic_sink: TopicSink) -> Place:
    """Return the place at an address.

    Raises: Refused: it names none; NotInstalled: it is a topic, without the extra `kafka`.
    """
    address = address_of(text, unencrypted=settings.checkpoint_places_unencrypted)
    return _made(address, settings, topic_sink, must_exist=False)


def readable_place_of(text: str, settings: Settings, topic_sink: TopicSink) -> ReadablePlace:
    """Return a place whose checkpoints can be read.

    Raises: Refused: as `place_of`, or it is a webhook.
    """
    address = address_of(text, unencrypted=True)  # nothing is sent there
    if address.kind == "webhook":
        raise Refused(
            f"{address.name} is a webhook, which takes checkpoints and shows none: have whoever "
            "runs it hand over the notes as files NAME.note in a directory, and name that"
        )
    if address.kind == "topic":
        return topic_sink(address, settings)
    return Directory(Path(address.target))


def senders_to(
    settings: Settings,
    topic_sink: TopicSink | None,
    *,
    kept: bool,
    background: Background = THREADS,
) -> Senders:
    """Return what sends checkpoints to the places that a setting names.

    Args:
        topic_sink: None where a topic is none of the places that can be sent to.
        kept: whether this process keeps checkpoints: no other ones are sent.

    Raises: Refused: as `place_of`, or no checkpoints are kept.
    """
    given, name = settings.checkpoint_places, "ACCOUNTANT_CHECKPOINT_PLACES"
    if not kept:
        raise Refused(f"{name} is set, but no checkpoints are kept: set ACCOUNTANT_CHECKPOINTS")
    unencrypted = settings.checkpoint_places_unencrypted
    try:
        text = "" if given is None else given.get_secret_value()
        addresses = addresses_of(text, unencrypted=unencrypted)
        places = [_made(each, settings, topic_sink, must_exist=True) for each in addresses]
    except NotInstalled:
        raise
    except Refused as error:
        raise Refused(f"setting {name}: {error}") from None
    webhooks = sum(place.kind == "webhook" for place in places)
    if settings.checkpoint_places_authorization is not None and webhooks > 1:
        raise Refused(f"setting {name}_AUTHORIZATION: {webhooks} webhooks would get the same")
    return Senders(places, settings.checkpoint_places_seconds, background=background)


def _made(
    address: Address, settings: Settings, topic_sink: TopicSink | None, *, must_exist: bool
) -> Place:
    if address.kind == "directory":
        return Directory(Path(address.target), must_exist=must_exist)
    if address.kind == "topic":
        if topic_sink is None:
            raise Refused(f"{address.name} is a topic, which this program sends nothing to")
        return topic_sink(address, settings)
    from streams.evidence.sink_webhook import CheckpointWebhook

    secret = settings.checkpoint_places_authorization
    authorization = None if secret is None else secret.get_secret_value()
    return CheckpointWebhook(address.target, address.name, authorization)
