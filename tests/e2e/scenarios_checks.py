# SPDX-License-Identifier: BSD-3-Clause
"""Health checks of every type with real servers, and reports of backends in their answers."""
import os
import time

from lab import HERE, PYTHON, service
from netns import sh, wait_for
from scenario import scenario

GRPC = os.path.join(HERE, "..", "unit", "control", "daemon", "health", "grpc_server.py")
BACKENDS = {"web-1": 100, "web-2": 100}


def checked(name, port, **more):
    return service(name, port, protocol="udp", backends=BACKENDS, **more)


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(content)


def start_servers(lab, number):
    """Its folder is the one that the servers read."""
    folder = os.path.join(lab.dir, f"checks-{number}")
    os.mkdir(folder)
    sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
       "-subj", "/CN=web", "-addext", "subjectAltName=DNS:web.example", "-days", "2",
       "-keyout", os.path.join(folder, "web.key"), "-out", os.path.join(folder, "web.pem"))
    write(folder, "line", "up 100%")
    namespace = lab.namespaces[f"b{number}"]
    lab.program(f"checks-{number}", namespace, PYTHON, os.path.join(HERE, "check_server.py"),
                folder)
    lab.program(f"grpc-{number}", namespace, PYTHON, GRPC, "8401", "8402", "8403", "8404",
                os.path.join(folder, "web.key"), os.path.join(folder, "web.pem"))
    return folder


def expect(lab, service_name, *states):
    wait_for(f"{service_name}: {states}", lambda: states == tuple(
        lab.backend(name, service_name)["health"] for name in BACKENDS))


@scenario(start=False, hosts=2, services=[
    checked("tls", 9001, check={"type": "https", "port": 8443, "verify": False, "body": "ok"}),
    checked("rpc", 9002, check={"type": "grpc", "port": 8401, "grpc_service": "serving"}),
    checked("line", 9003, check={"type": "agent-check", "port": 9777}),
    checked("beside", 9004, check={"type": "tcp", "port": 8443},
            agent_check={"port": 9777, "interval_ms": 300, "timeout_ms": 300}),
    checked("rarely", 9005, check={"type": "tcp", "port": 8443, "interval_ms": 3000, "retry_interval_ms": 100,
                                   "rise": 1, "fall": 5})])
def checks_of_every_type(lab):
    """HTTPS, gRPC and agent-check: healthy, the announced state, and refusing when it stops"""
    folder = [start_servers(lab, number) for number in (1, 2)][0]
    lab.start()
    for name in ("tls", "rpc", "line", "beside"):
        expect(lab, name, "healthy", "healthy")
    write(folder, "state", "lame-duck")
    expect(lab, "tls", "lame-duck", "healthy")
    os.remove(os.path.join(folder, "state"))
    expect(lab, "tls", "healthy", "healthy")
    write(folder, "line", "drain")
    expect(lab, "line", "lame-duck", "healthy")
    expect(lab, "beside", "lame-duck", "healthy")
    write(folder, "line", "up")  # which does not end a drain
    time.sleep(1)
    expect(lab, "line", "lame-duck", "healthy")
    lab.weirctl("backend", "ready", "beside/web-1")
    time.sleep(1)
    expect(lab, "beside", "healthy", "healthy")
    expect(lab, "line", "lame-duck", "healthy")
    write(folder, "line", "drain")  # repeated, and accepted again
    expect(lab, "beside", "lame-duck", "healthy")
    write(folder, "line", "up ready")
    expect(lab, "line", "healthy", "healthy")
    expect(lab, "beside", "healthy", "healthy")
    assert "agent-check: reply" in lab.weirctl("health", "show", "beside")[1]
    lab.programs["grpc-1"].kill()
    expect(lab, "rpc", "refusing", "healthy")
    expect(lab, "tls", "healthy", "healthy")
    expect(lab, "rarely", "healthy", "healthy")
    lab.programs["checks-1"].kill()
    begin = time.monotonic()
    expect(lab, "rarely", "refusing", "healthy")  # 3 s and four retries; 12 s without these
    assert time.monotonic() - begin < 8
    expect(lab, "tls", "refusing", "healthy")
    expect(lab, "beside", "refusing", "healthy")
