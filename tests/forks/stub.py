"""`accountant` for a shell: has the fork server run it, and passes on signals and its end.

It imports modules in C alone, so that it takes next to no processor time.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import array
import marshal
import posix
import sys

UTF_8 = ("utf-8", "surrogateescape")

environment = {k.decode(*UTF_8): v.decode(*UTF_8) for k, v in posix.environ.items()}
umask = posix.umask(0o077)
order = {
    "module": "streams.cli.root",
    "arguments": sys.argv[1:],
    "cwd": posix.getcwd(),
    "env": environment,
    "session": False,
    "umask": umask,
}
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.connect(f"{sys.argv[0]}.orders")
streams = array.array("i", [0, 1, 2]).tobytes()
server.sendmsg([marshal.dumps(order)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
pid = int(server.recv(64))
for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
    _signal.signal(number, lambda number, _: posix.kill(pid, number))
status = int(server.recv(64) or _signal.SIGKILL)
if status & 0x7F:
    _signal.signal(status & 0x7F, _signal.SIG_DFL)
    posix.kill(posix.getpid(), status & 0x7F)
posix._exit(status >> 8)
