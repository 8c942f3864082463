"""Answer what a run's box asks on its own socket: the go, the report, model calls."""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from pidispatch.domain import words
from pidispatch.domain.redaction import Redactor
from pidispatch.errors import DatabaseUnavailable
from pidispatch.gateway.http1 import MOST_BODY, Head, Refused, Wire, problem, too_large
from pidispatch.gateway.keys import attempt_key, is_signed
from pidispatch.gateway.landing import BudgetWatch, asked, document
from pidispatch.gateway.metering import load_object
from pidispatch.gateway.providers import WIRE_PATHS, Providers
from pidispatch.gateway.proxy import Lines, Proxy
from pidispatch.gateway.reports import MOST_REPORT, read_report
from pidispatch.gateway.rooms import Rooms
from pidispatch.gateway.sockets import Listener
from pidispatch.gateway.tunnel import Egress
from pidispatch.ports import Budget, Ticket, Tickets

MOST_UNSIGNED = 16
FIRST_LOOK, LONGEST_LOOK = 0.005, 0.1  # seconds between two looks whether a box may have its go by now
MOST_LOOKS = 600  # a minute: the runner has given up by then
_CONTAINER = re.compile(r"[0-9a-f]{12,64}")

log = structlog.get_logger(__name__)


class Door:
    """One run's socket. Which run speaks is known by the socket alone, never by what is said on it."""

    def __init__(
        self,
        ticket: Ticket,
        path: Path,
        *,
        tickets: Tickets,
        providers: Providers,
        proxy: Proxy,
        redactor: Redactor,
        egress: Egress,
        rooms: Rooms,
        secret: bytes,
        budget: Callable[[int], Budget | None],
    ) -> None:
        self._ticket, self._tickets, self._providers, self._proxy = ticket, tickets, providers, proxy
        self._redactor, self._secret = redactor, secret
        self._watch = BudgetWatch(lambda: budget(ticket.run_id))
        self._lines = Lines()
        self._tunnels = egress.door(ticket, rooms.tunnels)
        self._lock = threading.Lock()
        self._bodies = rooms.bodies
        self._unsigned = 0
        self._routes: dict[tuple[str, str], Callable[[Wire, Head], None]] = {
            ("POST", "/go"): self._go,
            ("POST", "/report"): self._report,
            ("GET", "/budget"): self._budget,
            **{("POST", path): self._call for path in WIRE_PATHS},
        }
        self._listener = Listener(path, 0o666, self._serve, room=rooms.connections, run_id=ticket.run_id)

    @property
    def ticket(self) -> Ticket:
        return self._ticket

    def stop_accepting(self) -> None:
        self._watch.close()
        self._listener.stop_accepting()
        self._tunnels.rest()

    def settled(self) -> None:
        """A call of this run was settled."""
        self._watch.settled()

    def drain(self, seconds: float) -> bool:
        return self._listener.wait_quiet(seconds)

    def cut(self) -> None:
        """Abort every call upstream and every tunnel, then every connection."""
        self._lines.cut()
        self._tunnels.cut()
        self._listener.hang_up()

    def cut_calls(self) -> int:
        """Abort every call that is under way, and nothing else; returns how many."""
        return self._lines.cut_open()

    def _serve(self, wire: Wire, head: Head) -> None:
        if not head.path.startswith("/"):
            with self._room(head):
                self._tunnels.serve(wire, head)
            return
        route = self._routes.get((head.method, head.path))
        if route is None:
            wire.read_body(head, MOST_REPORT)
            wire.answer(404, problem("not_found", "pidispatch: there is nothing at this path"))
            return
        route(wire, head)

    def _go(self, wire: Wire, head: Head) -> None:
        asked = load_object(wire.read_body(head, MOST_REPORT)) or {}
        container = asked.get("container")
        run_id, attempt = self._ticket.run_id, self._ticket.attempt
        if not isinstance(container, str) or _CONTAINER.fullmatch(container) is None:
            wire.answer(403, {"go": False, "reason": words.MALFORMED})
            return
        if isinstance(asked.get("attempt"), bool) or asked.get("attempt") != attempt:
            wire.answer(403, {"go": False, "reason": words.STALE_ATTEMPT})
            return
        try:
            given = self._given(wire, container)
        except DatabaseUnavailable:
            wire.answer(503, {"go": False, "reason": words.DATABASE_AWAY})
            return
        if given is None:
            return
        log.info("gateway.go", run=self._ticket.public_id, attempt=attempt, given=given)
        if not given:
            wire.answer(403, {"go": False, "reason": words.REFUSED})
            return
        wire.answer(200, {"go": True, "key": attempt_key(self._secret, run_id, attempt)})

    def _given(self, wire: Wire, container: str) -> bool | None:
        """None when nobody hears the answer any more: a go that is not heard would be spent for nothing.

        A box is up before its preparer has compared its mounts and recorded it. That takes some milliseconds, and the
        box waits here meanwhile; a preparer that died is found by the reconciler, which moves the row on.
        """
        run_id, attempt = self._ticket.run_id, self._ticket.attempt
        preparing = True
        for look in range(MOST_LOOKS):
            if wire.left():  # this process may also have been stopped for a while
                return None
            if self._tickets.give_go(run_id, attempt, container):
                return True
            if not preparing:
                break
            time.sleep(min(LONGEST_LOOK, FIRST_LOOK * look))
            preparing = self._tickets.is_preparing(run_id, attempt)
        return False

    def _report(self, wire: Wire, head: Head) -> None:
        body = wire.read_body(head, MOST_REPORT)
        report = read_report(body)
        ticket = self._ticket
        if report is None or report["attempt"] != ticket.attempt:
            wire.answer(
                400, problem("invalid_request_error", "pidispatch: this is no report of this attempt")
            )
            return
        key = attempt_key(self._secret, ticket.run_id, ticket.attempt)
        verified = is_signed(key, body, head.field("x-pidispatch-signature"))
        if not verified and not self._may_keep_unsigned():
            wire.answer(429, problem("rate_limit_error", "pidispatch: too many unsigned reports"))
            return
        try:
            kept = self._redactor.json(report)
            self._tickets.keep_report(ticket.run_id, ticket.attempt, kept, verified=verified)
        except DatabaseUnavailable:
            wire.answer(503, problem("overloaded_error", "pidispatch: the database does not answer"))
            return
        log.info("gateway.report", run=ticket.public_id, attempt=ticket.attempt, verified=verified)
        wire.answer(204)

    def _may_keep_unsigned(self) -> bool:
        with self._lock:
            self._unsigned += 1
            return self._unsigned <= MOST_UNSIGNED

    def _budget(self, wire: Wire, head: Head) -> None:
        wire.read_body(head, MOST_REPORT)
        wait, told = asked(head.query)
        try:
            budget = self._watch.ask(wait=wait, told=told)
        except DatabaseUnavailable:
            wire.answer(503, problem("overloaded_error", "pidispatch: the database does not answer"))
            return
        if budget is None:
            wire.answer(404, problem("not_found", "pidispatch: there is no such run"))
            return
        wire.answer(200, document(budget))

    def _call(self, wire: Wire, head: Head) -> None:
        with self._room(head):
            body = wire.read_body(head)
            provider = self._providers.find(self._ticket.provider)
            if provider is None or WIRE_PATHS[head.path] != provider.facts.api:
                wire.answer(
                    404, problem("not_found", "pidispatch: the run's provider does not speak this API")
                )
                return
            if not provider.facts.credential:
                wire.answer(
                    401, problem("authentication_error", "pidispatch: the gateway holds no key for it")
                )
                return
            self._proxy.forward(self._ticket, provider, self._lines, wire, head=head, body=body)

    @contextlib.contextmanager
    def _room(self, head: Head) -> Iterator[None]:
        """Bound what one box can make this process hold: all bodies of its open requests together."""
        size = MOST_BODY if head.length is None else head.length
        if size > MOST_BODY:
            raise too_large(MOST_BODY)
        if not self._bodies.take(self._ticket.run_id, size):
            raise Refused(503, "too many bytes are in open requests: wait for an answer, and try again")
        try:
            yield
        finally:
            self._bodies.give(self._ticket.run_id, size)
