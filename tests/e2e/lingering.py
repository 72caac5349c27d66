# SPDX-License-Identifier: BSD-3-Clause
"""Sends a descriptor whose close takes a long time, to a process that expects no descriptors."""
import contextlib
import signal
import subprocess

# Sends a descriptor to the socket named by the argument ("@NAME" = abstract). The descriptor stays in
# the socket's queue until a receiver closes it. It is the last descriptor of a connection whose
# close takes 100 s.
SEND_LINGERING = """
import array, socket, struct, sys
path = sys.argv[1]
listener = socket.create_server(("127.0.0.1", 0))
full = socket.create_connection(listener.getsockname())
peer, _ = listener.accept()
try:
    while full.send(b"x" * 65536, socket.MSG_DONTWAIT):
        pass
except BlockingIOError:
    pass
full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 100))
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if path[0] == "@" else socket.SOCK_STREAM)
to.connect(path.replace("@", "\\0"))
try:
    to.sendmsg([b"status\\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [full.fileno()]))])
except PermissionError:  # the receiver accepts no descriptors (SO_PASSRIGHTS), so close() here must not block
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
full.close()
print("sent", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def lingering(namespace, program, path, user, group=None):
    """As this user, send the program a connection whose close takes a long time. The program is
    stopped until the sender has closed its own descriptor, so that the program has the last descriptor."""
    program.send_signal(signal.SIGSTOP)
    with namespace.inside():
        sender = subprocess.Popen(["/usr/bin/python3", "-c", SEND_LINGERING, path], user=user,
                                  group=group or user,
                                  extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
    try:
        sender.stdout.readline()  # "sent", or the error of a kernel that refuses the descriptor
        program.send_signal(signal.SIGCONT)
        yield
    finally:
        sender.kill()
        sender.wait()
