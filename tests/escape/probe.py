"""Runs inside a box: try every way out, and say in one line of JSON what came of each."""

import contextlib
import json
import os
import socket
import subprocess
import sys

sys.path.insert(0, "/opt/pidispatch")
from runner.command import pi_env
from runner.forward import PORT, Forwarder

ASKED = json.loads(open("/job/asked.json").read())  # noqa: PTH123, SIM115


def said(error):
    return f"{type(error).__name__}: {error}"


def read(path):
    with open(path) as file:  # noqa: PTH123
        return file.read()


def interfaces():
    return sorted(line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()[2:])


def routes():
    found = [line.split()[0] for line in read("/proc/net/route").splitlines()[1:]]
    with contextlib.suppress(FileNotFoundError):
        found += [line.split()[-1] for line in read("/proc/net/ipv6_route").splitlines()]
    return sorted(set(found) - {"lo"})


def resolve(name):
    try:
        return str(socket.getaddrinfo(name, 443))
    except OSError as error:
        return said(error)


def tcp(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(5)
            sock.connect((address, port))
            return "connected"
    except OSError as error:
        return said(error)


def udp(address, port):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"x", (address, port))
            return "sent"
    except OSError as error:
        return said(error)


def special(kind, protocol, address):
    try:
        with socket.socket(socket.AF_INET, kind, protocol) as sock:
            sock.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", (address, 0))
            return "sent"
    except OSError as error:
        return said(error)


def packet():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except OSError as error:
        return said(error)
    return "opened"


def proxy(request):
    """The status of the answer and the kind of its problem; with what a tunnel gives back, if there is one."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=30) as sock:
        sock.sendall(request.encode("latin-1"))
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = sock.recv(65536)
            if not piece:
                return "hung up"
            answer += piece
        status = answer.split(b" ", 2)[1].decode()
        if status == "200" and request.startswith("CONNECT"):
            sock.sendall(b"ping")
            return f"200 {sock.recv(100).decode()}"
        while piece := sock.recv(65536):
            answer += piece
        body = answer.partition(b"\r\n\r\n")[2]
        try:
            return f"{status} {json.loads(body)['error']['type']}"
        except ValueError:
            return f"{status} {body!r}"


def unix(path):
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(5)
            sock.connect(path)
            return "connected"
    except OSError as error:
        return said(error)


def shell(command, **more):
    env = {**pi_env(os.environ, None, {}), **more}
    done = subprocess.run(
        ["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return f"{done.returncode} {(done.stdout + done.stderr).strip()[-600:]}"


def connect(target):
    return proxy(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n")


def plain(url):
    return proxy(f"GET {url} HTTP/1.1\r\nhost: allowed.example\r\n\r\n")


WAYS = {
    "interfaces": interfaces,
    "routes": routes,
    "resolve": resolve,
    "tcp": tcp,
    "udp": udp,
    "icmp": lambda address: special(socket.SOCK_DGRAM, socket.IPPROTO_ICMP, address),
    "raw": lambda address: special(socket.SOCK_RAW, socket.IPPROTO_ICMP, address),
    "packet": packet,
    "connect": connect,
    "plain": plain,
    "unix": lambda path: unix(path.encode("latin-1")),
    "listing": lambda path: sorted(os.listdir(path)),  # noqa: PTH208
    "abstract": lambda: sorted(
        line.split()[-1] for line in read("/proc/net/unix").splitlines() if "@" in line
    ),
    "shell": shell,
}


def main():
    Forwarder("/gate/s")
    for name, (way, *arguments) in ASKED.items():
        try:
            found = WAYS[way](*arguments)
        except Exception as error:  # noqa: BLE001 - what fails is an answer too
            found = said(error)
        print(json.dumps([name, found]), flush=True)
    print("=== end", flush=True)


main()
