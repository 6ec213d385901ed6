"""An address that cannot be listened at: why, who has it, and which option chooses another one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from streams.errors import Refused
from streams.server.listen import Options, bind_socket

OPTIONS = Options("--port (ACCOUNTANT_PORT)", "--bind (ACCOUNTANT_BIND)")
LISTENING = """
import socket
with socket.create_server(("127.0.0.1", 0)) as made:
    print(made.getsockname()[1], flush=True)
    input()
"""


def refusal(host: str, port: int) -> str:
    with pytest.raises(Refused) as error:
        bind_socket(host, port, OPTIONS).close()
    return str(error.value)


def test_a_taken_port_names_the_process_that_listens_there() -> None:
    command = [sys.executable, "-c", LISTENING]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as other:  # type: ignore[call-overload]
        port = int(other.stdout.readline())
        said = refusal("127.0.0.1", port)
        other.communicate("\n")
    # Other systems do not say who listens.
    who = f"process {other.pid} (python)" if sys.platform == "linux" else "another process"
    assert said == (
        f"cannot listen at 127.0.0.1 port {port}: {who} listens there. Stop it, or choose another "
        "port by --port (ACCOUNTANT_PORT)"
    )


def test_a_port_that_this_process_has_taken_is_named_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refusal("127.0.0.1", taken.getsockname()[1])
    assert said.endswith("Choose another port by --port (ACCOUNTANT_PORT)")
    assert "--bind" not in said
    if sys.platform == "linux":
        assert "this process listens there already" in said
    assert f"process {os.getpid()}" not in said


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_gets_the_option_of_addresses(host: str) -> None:
    said = refusal(host, 0)
    assert f"{host} is no address of this machine" in said
    assert said.endswith("Choose another one by --bind (ACCOUNTANT_BIND)")
