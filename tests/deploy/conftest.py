"""What docker-compose.yml starts, as processes of this machine: its keys, its broker, its users."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unlimited import unlimited

if TYPE_CHECKING:
    from tests.deploy.compose_stack import ComposeStack

OPENS = ("deploy/compose/*",)
STARTS = ()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The volumes of the keys, as a first start leaves them."""
    from deploy.compose import first_start

    made = tmp_path_factory.mktemp("keys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_start, "HOME", made)
        patch.setenv("ACCOUNTANT_TOKENS", str(made / "tokens" / "tokens.json"))
        (made / "tokens").mkdir(mode=0o750)
        first_start.make()
        yield made


@pytest.fixture(scope="module")
def composed(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """The broker with its users; its ports, its address and its directory are other ones."""
    from streams.testing import LocalBroker
    from streams.testing.broker_settings import free_ports
    from tests.deploy.compose_stack import ComposeStack, broker_properties

    ports = free_ports()
    it = ComposeStack(keys, ports.clients, ports.proxied)
    settings = {}
    for key, value in broker_properties().items():
        text = value.replace("CLIENTS://:9092", "CLIENTS://kafka:9092")
        settings[key] = it.here(text.replace("127.0.0.1:9093", f"127.0.0.1:{ports.controller}"))
    broker = LocalBroker(port=it.internal, settings=settings, short_lived=True)
    with ExitStack() as stack:
        with unlimited():  # the very first start downloads Kafka
            stack.enter_context(broker)
            _users(it, tmp_path_factory.mktemp("tool") / "kafka-configs.sh")
        yield it


def _users(it: ComposeStack, tool: Path) -> None:
    """Run deploy/compose/users.sh; its tool is the class that the image's script starts."""
    from streams.testing.broker_process import QUICK_COMPILER
    from streams.testing.kafka_install import java, kafka_jars, kafka_version
    from streams.testing.quick_start import quick_start
    from tests.deploy.compose_stack import ROOT

    jars = os.pathsep.join(map(str, kafka_jars(kafka_version())))
    quick = " ".join((*QUICK_COMPILER, *quick_start(kafka_version()).options))
    tool.write_text(
        f'#!/bin/sh\nexec "{java()}" {quick} -cp "{jars}" kafka.admin.ConfigCommand "$@"\n'
    )
    tool.chmod(0o755)
    script = it.here((ROOT / "deploy/compose/users.sh").read_text())
    assert script.count("/opt/kafka/bin/kafka-configs.sh") == 1
    script = script.replace("/opt/kafka/bin/kafka-configs.sh", str(tool))
    first = min((it.home / "broker" / "users").iterdir()).name
    for files in ("*.properties", first):  # it is safe to repeat
        run = ["bash", "-c", script.replace("*.properties", files)]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
