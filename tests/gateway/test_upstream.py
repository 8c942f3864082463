"""The way to a provider: over TLS as in production, warm, and cut from another thread."""

import shutil
import ssl
import subprocess
import threading

import pytest

from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.gateway.calls.upstream import Line, Upstream, UpstreamFailed
from pidispatch.gateway.providers import Patience
from tests.gateway.parts import ManualUpstream, chat

BODY = str(chat()).replace("'", '"').replace("True", "true").encode()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem"
    )
    subject = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *subject], cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def tls(certificate):
    """A scripted provider behind TLS, and what trusts it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)
    with ScriptedProvider() as provider:
        provider._server.socket = server.wrap_socket(provider._server.socket, server_side=True)
        provider.secure_url = provider.url.replace("http:", "https:") + "/v1/chat/completions"
        yield provider, ssl.create_default_context(cafile=certificate[0])


def test_a_provider_over_tls_is_streamed(tls):
    provider, trust = tls
    upstream = Upstream(trust)

    with upstream.post(provider.secure_url, (), BODY, Line()) as answer:
        pieces = list(answer.chunks)

    upstream.close()
    assert answer.status == 200
    assert b"[DONE]" in b"".join(pieces)


def test_a_provider_with_a_certificate_nobody_vouches_for_gets_nothing(tls):
    provider, _ = tls
    upstream = Upstream()

    with pytest.raises(UpstreamFailed) as failure, upstream.post(provider.secure_url, (), BODY, Line()):
        pass

    upstream.close()
    assert not failure.value.sent
    assert provider.asked == []


def test_a_call_over_tls_can_be_cut_while_it_waits(tls):
    provider, trust = tls
    upstream, line, more = Upstream(trust), Line(), threading.Event()
    provider.pace = lambda number: number < 2 or more.wait(20) or None

    with upstream.post(provider.secure_url, (), BODY, line) as answer:
        next(answer.chunks)
        threading.Timer(0.1, line.cut).start()
        with pytest.raises(UpstreamFailed):
            list(answer.chunks)

    more.set()
    upstream.close()
    assert line.is_cut


def test_a_connection_is_used_again():
    upstream = Upstream()
    streams = set()
    with ScriptedProvider() as provider:
        for _ in range(3):
            line = Line()
            with upstream.post(f"{provider.url}/v1/messages", (), BODY, line) as answer:
                streams.add(line._stream)
                assert b"".join(answer.chunks)
            # Its client may go now: that is of no concern to whoever uses the connection next.
            line.cut()
        upstream.close()

    assert len(streams) == 1


def test_a_late_cut_does_not_hit_the_next_call_on_the_same_connection():
    upstream, first, second = Upstream(), Line(), Line()
    with ScriptedProvider() as provider:
        url = f"{provider.url}/v1/messages"
        with upstream.post(url, (), BODY, first) as answer:
            used = first._stream
            list(answer.chunks)
        with upstream.post(url, (), BODY, second) as answer:
            first.cut()
            assert second._stream is used
            pieces = b"".join(answer.chunks)
        upstream.close()

    assert b"message_stop" in pieces


def test_a_line_cut_before_the_call_ends_it_at_once():
    manual, upstream, line = ManualUpstream(), Upstream(), Line()
    line.cut()

    with pytest.raises(UpstreamFailed), upstream.post(manual.url, (), BODY, line):
        pass

    upstream.close()
    manual.close()


def test_nothing_is_kept_from_one_answer_to_the_next_request():
    manual, upstream = ManualUpstream(), Upstream()
    threading.Thread(
        target=lambda: (manual.read_request(), manual.send(b"HTTP/1.1 302 Found\r\nlocation: /x\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"))
    ).start()  # fmt: skip
    with upstream.post(manual.url, (), BODY, Line()) as answer:
        assert list(answer.chunks) == []
    assert answer.status == 302

    threading.Thread(target=lambda: (manual.read_request(), manual.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"))).start()  # fmt: skip
    with upstream.post(manual.url, (), BODY, Line()) as answer:
        list(answer.chunks)

    assert b"cookie" not in manual.received.lower()
    upstream.close()
    manual.close()


@pytest.mark.parametrize(
    ("patience", "sent"),
    [
        (Patience(first=0.1, next=None), b""),
        (Patience(first=0.1, next=None), b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        (Patience(first=None, next=0.1), b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"),
    ],
)
def test_a_provider_may_take_so_long_for_the_first_byte_and_so_long_for_the_next(manual, patience, sent):
    upstream, told = Upstream(), []

    def ask():
        try:
            with upstream.post(f"{manual.url}/v1", (), b"{}", Line(), patience) as answer:
                told.extend(answer.chunks)
        except UpstreamFailed as failure:
            told.append(str(failure))

    asking = threading.Thread(target=ask)
    asking.start()
    manual.read_request()
    manual.send(sent)
    asking.join(30)

    assert told == ["ReadTimeout"] if patience.next is None else told == [b"a", "ReadTimeout"]
    upstream.close()


def test_one_without_a_bound_is_waited_for_until_the_line_is_cut(manual):
    upstream, line, told = Upstream(), Line(), []
    asked = threading.Event()

    def ask():
        try:
            with upstream.post(f"{manual.url}/v1", (), b"{}", line, Patience(first=None, next=None)):
                pass
        except UpstreamFailed as failure:
            told.append(failure)
        asked.set()

    threading.Thread(target=ask, daemon=True).start()
    manual.read_request()
    assert not asked.wait(0.3)
    line.cut()

    assert asked.wait(20)
    assert len(told) == 1
    upstream.close()
