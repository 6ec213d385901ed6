"""A real one-node Kafka on loopback, without Docker, Java or Maven on the machine.

    with LocalBroker() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)

From a shell: `python -m streams.testing.broker [--port PORT] [--directory DIRECTORY]` prints the
bootstrap address and runs until SIGINT or SIGTERM. Needs the extra `local-kafka`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from streams.clock import steady
from streams.testing.broker_process import (
    COLLECTOR,
    QUICK_COMPILER,
    answers,
    java_command,
    pause_process,
    problems,
    spawn,
    watchdog,
)
from streams.testing.broker_security import BrokerSecurity
from streams.testing.broker_settings import (
    HOST,
    BrokerError,
    Ports,
    free_ports,
    server_properties,
)
from streams.testing.kafka_install import java, kafka_jars, kafka_version
from streams.testing.quick_start import META, QuickStart, copy_storage, new_id, quick_start


class LocalBroker:
    """One Kafka broker and controller in a child process, which ends with this process.

    As a context manager it starts on entry and closes on exit. A test may call all other methods
    in any order: `kill` then `start` keeps data and ports. Only one thread may use it.

    Args:
        directory: for data, log and configuration; `close` does not remove it. The default is a
            temporary one that `close` removes. The same Kafka version can reuse a directory.
        version: of Kafka; default the environment variable KAFKA_VERSION, else 4.2.0.
        port: for clients, on 127.0.0.1; default a free one.
        settings: broker settings that override those of `server_properties`.
        users: names of users; with them clients need TLS and SASL, and their rights come from ACLs.
            `security` then has the passwords and the certificates' authority.
        heap_mb: size of the Java heap, in MiB.
        short_lived: whether Java compiles quickly rather than well, and starts from an archive of
            Kafka's classes. The start then takes a third of the processor time, but long runs
            are slower: for tests, not for measurements. The first such start of a Kafka version
            takes half a minute longer, to prepare the archive in `cache`.
        start_timeout: seconds that a start may take.
        cache: directory of the jars and the archive; default `kafka_install.cache_directory()`.

    Raises:
        KafkaUnavailable: on start: the extra is not installed, or the jars cannot be fetched.
        BrokerError: on start: the broker ended or did not answer in time.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        version: str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        users: Sequence[str] = (),
        heap_mb: int = 1024,
        short_lived: bool = False,
        start_timeout: float = 60.0,
        cache: Path | None = None,
    ) -> None:
        self.version = version or kafka_version()
        self._user_directory = directory
        self._directory = directory.resolve() if directory is not None else None
        self._user_port = port
        self._ports: Ports | None = None
        self._settings = dict(settings or {})
        self._users = users
        self._security: BrokerSecurity | None = None
        self._heap_mb = heap_mb
        self._short_lived = short_lived
        self._start_timeout = start_timeout
        self._cache = cache
        self._log_start = 0  # size of the log file when this start began
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The address for clients, `127.0.0.1:port`; the same after every restart."""
        return f"{HOST}:{self.ports.clients}"

    @property
    def ports(self) -> Ports:
        """The ports in use, chosen at the first start.

        `proxied` is a second listener. It tells its clients to connect to the port `proxy`, which
        the broker leaves free: a test starts a proxy there that forwards to `proxied`.
        """
        if self._ports is None:
            raise BrokerError("the broker has no address before its first start")
        return self._ports

    @property
    def security(self) -> BrokerSecurity:
        """The users and certificates of a broker with users."""
        if self._security is None:
            if not self._users:
                raise BrokerError("the broker has no security: pass `users` to LocalBroker")
            self._security = BrokerSecurity(self.directory / "security", self._users)
        return self._security

    @property
    def directory(self) -> Path:
        """The directory of data, log and configuration."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="local-kafka-"))
        return self._directory

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if self._process is None:
            raise BrokerError("the broker is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists; a paused process does."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start on the existing data, if any, and return when the broker answers clients."""
        if self.is_running:
            raise BrokerError("the broker is already running")
        for tries_left in (2, 1, 0):
            first = self._ports is None
            self._ports = self._ports or free_ports(clients=self._user_port)
            self._log_start = self._log.stat().st_size if self._log.exists() else 0
            try:
                self._format()
                self._spawn()
                self.wait_until_ready()
            except BrokerError as error:
                self.kill()
                # Another process took a chosen port before the broker bound it: choose again.
                if not (first and tries_left and "Address already in use" in str(error)):
                    raise
                self._ports = None
            except BaseException:
                self.kill()
                raise
            else:
                return

    def stop(self, timeout: float = 20.0) -> None:
        """Shut the broker down; kill it after `timeout` seconds. Keeps the data."""
        if self._process is not None and self.is_running:
            self._process.terminate()
            self.resume()  # A paused process handles no SIGTERM.
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()

    def kill(self) -> None:
        """End the broker by SIGKILL, like a crash. Keeps the data."""
        if self._process is not None and self.is_running:
            self._process.kill()
        self._reap()

    def restart(self) -> None:
        """Stop, then start on the same data and ports."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the process by SIGSTOP: connections stay open, but the broker does not answer."""
        pause_process(self.pid)

    def resume(self) -> None:
        """Continue a paused process by SIGCONT; `wait_until_ready` waits until it answers."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop, or kill if the directory is temporary: then remove it with its data."""
        if self._user_directory is not None:
            self.stop()
            return
        self.kill()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def wait_until_ready(self) -> None:
        """Return when the broker lists itself in the metadata that it gives to clients."""
        deadline = steady() + self._start_timeout
        cluster = self._cluster()
        # A broker with TLS for clients answers without TLS on another port.
        port = self.ports.proxied if self._users else self.ports.clients
        while not answers(port, cluster):
            if self._process is None or self._process.poll() is not None:
                raise BrokerError(f"Kafka {self.version} ended at start:\n{self._explanation()}")
            if steady() > deadline:
                raise BrokerError(
                    f"Kafka {self.version} does not answer on {self.bootstrap} after "
                    f"{self._start_timeout:g} s:\n{self._explanation()}"
                )
            time.sleep(0.02)

    def log_tail(self, lines: int = 60) -> str:
        """Return the last lines of the broker's log, over all its starts."""
        if not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(errors="replace").split("\n")[-lines:])

    def _explanation(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            latest = log.read().decode(errors="replace")
        return f"{problems(latest)}\n--- end of {self._log}:\n{self.log_tail(20)}"

    def _format(self) -> None:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        secured = self.security.properties(self.ports) if self._users else {}
        text = server_properties(self.ports, data, {**secured, **self._settings})
        self._properties.write_text(text, encoding="utf-8")
        if (data / META).exists():
            return
        # The tool writes users into the storage, and follows some settings.
        storage = None if self._users or self._settings else self._prepared().storage
        if storage is not None:
            copy_storage(storage, data)
        else:
            # An id may begin with "-": as a separate argument it would be read as an option.
            arguments = [
                "--ignore-formatted",
                f"--cluster-id={new_id()}",
                "-c",
                str(self._properties),
            ]
            arguments += self.security.format_arguments() if self._users else []
            quick = ("-Xmx128m", *QUICK_COMPILER, "-XX:+UseSerialGC", *self._prepared().options)
            program = ("kafka.tools.StorageTool", "format", *arguments)
            if spawn(self._command(program, options=quick), self._log).wait() != 0:
                raise BrokerError(f"cannot format {data}:\n{self._explanation()}")

    def _spawn(self) -> None:
        program = ("kafka.Kafka", self._properties)
        heap = (f"-Xms{self._heap_mb}m", f"-Xmx{self._heap_mb}m")
        quick = (*QUICK_COMPILER, *self._prepared().options) if self._short_lived else ()
        options = (*heap, *COLLECTOR, *quick)
        self._process = spawn(self._command(program, options=options), self._log)
        temporary = self.directory if self._user_directory is None else None
        self._watchdog = watchdog(self._process.pid, temporary)

    def _prepared(self) -> QuickStart:
        return quick_start(self.version, cache=self._cache) if self._short_lived else QuickStart()

    def _cluster(self) -> str:
        text = (self.directory / "data" / META).read_text(encoding="utf-8")
        return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)["cluster.id"]

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _log(self) -> Path:
        return self.directory / "broker.log"

    def _command(
        self, program: Sequence[str | Path], *, options: Sequence[str]
    ) -> list[str | Path]:
        jars, temporary = kafka_jars(self.version, cache=self._cache), self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        return java_command(java(), jars, program, temporary=temporary, options=options)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._watchdog is not None:
            self._watchdog.kill()  # Before its pipe closes, or it might kill a reused pid.
            self._watchdog.communicate()
            self._watchdog = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one broker in the foreground; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m streams.testing.broker",
        description="Run a real one-node Kafka on loopback until SIGINT or SIGTERM.",
    )
    parser.add_argument("--port", type=int, help="port for clients (default: a free one)")
    parser.add_argument("--directory", type=Path, help="keep data there (default: temporary)")
    parser.add_argument("--version", help="Kafka version (default: KAFKA_VERSION, else 4.2.0)")
    options = parser.parse_args(arguments)
    # SIGTERM ends the program like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with LocalBroker(options.directory, version=options.version, port=options.port) as broker:
            print(broker.bootstrap, flush=True)
            while broker.is_running:
                time.sleep(0.2)
            raise BrokerError(f"the broker ended by itself:\n{broker.log_tail()}")
    except KeyboardInterrupt:
        return 0
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
