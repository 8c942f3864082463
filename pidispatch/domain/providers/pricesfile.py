"""Parse the prices file: what an operator says models cost, which are free, and which a plan covers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from pidispatch.domain.providers.known import is_model
from pidispatch.domain.providers.pricefigures import Like, figures_of
from pidispatch.domain.providers.rates import Price, Rating, no_price
from pidispatch.domain.text.fields import FileEntry, Report, require_version, root_entry
from pidispatch.domain.text.jsonfile import Node, read_json, shown

VERSION = 1
EVERY_MODEL = "/*"
NAME_MAX = 200
_ROOT = ("version", "models", "free", "plan")


@dataclass(frozen=True)
class PriceFile:
    """What the file says of models, by `provider/model` in lower case.

    `covered` holds what is free or in a plan, there also by `provider/*`; `plans` says of such a name which plan.
    """

    models: Mapping[str, Price | Like]
    covered: Mapping[str, Price]
    plans: Mapping[str, str]
    version: str
    notes: tuple[str, ...] = field(default=(), compare=False)

    def find(self, provider: str, model: str) -> Price | Like | None:
        """None: the file says nothing of this model."""
        key = f"{provider}/{model}".lower()
        return self.models.get(key) or self.covered.get(key) or self.covered.get(_every_model_of(key))

    def plan_of(self, provider: str, model: str) -> str | None:
        key = f"{provider}/{model}".lower()
        return self.plans.get(key) or self.plans.get(_every_model_of(key))


def _every_model_of(key: str) -> str:
    return key.partition("/")[0] + EVERY_MODEL


def parse_prices(content: bytes, file: str) -> PriceFile:
    """The prices of the file. Raises ConfigurationRefused with every problem."""
    report = Report(file)
    root = root_entry(read_json(content, file), report, 'an object with "version", "models", "free", "plan"')
    require_version(root, VERSION)
    reading = _Reading(root, f"prices-file sha256:{sha256(content).hexdigest()[:12]}")
    reading.models()
    reading.free()
    reading.plans()
    reading.judge_together()
    root.refuse_unknown(_ROOT)
    report.close()
    return reading.result()


@dataclass(frozen=True, slots=True)
class _Named:
    """A name of the file: as it is written, where, and on which line."""

    text: str
    where: str
    line: int


class _Reading:
    """One pass over the file; each name is remembered where it stands first."""

    def __init__(self, root: FileEntry, version: str) -> None:
        self._root, self._report, self._version = root, root.report, version
        self._models: dict[str, Price | Like] = {}
        self._covered: dict[str, Price] = {}
        self._plans: dict[str, str] = {}
        self._first: dict[str, _Named] = {}

    def models(self) -> None:
        for name, node in self._members(
            self._root, "models", "an object from provider/model to what it costs"
        ):
            named = _Named(name, f"models[{shown(name)}]", node.line)
            key = self._key(named)
            if not isinstance(node.value, dict):
                self._report.refuse(node.line, f"{named.where}: must be an object")
                continue
            figures = figures_of(
                FileEntry(self._report, named.where, node.value, node.line), name, self._version
            )
            if key is not None and figures is not None:
                self._models[key] = figures

    def free(self) -> None:
        self._cover(self._root, "free", Rating.FREE, None)

    def plans(self) -> None:
        for plan, node in self._members(
            self._root, "plan", "an object from a plan's name to a list of models"
        ):
            entry = FileEntry(self._report, "plan", {shown(plan): node}, node.line)
            if not (plan.strip() and plan.isprintable() and len(plan) <= NAME_MAX):
                self._report.refuse(node.line, f"plan: {shown(plan)} is no name of a plan")
            self._cover(entry, shown(plan), Rating.PLAN, plan)

    def judge_together(self) -> None:
        """A model whose provider is free as a whole has no price; what another costs is said by figures."""
        for key, named in self._first.items():
            whole = self._first.get(_every_model_of(key))
            if whole is not None and whole is not named:
                self._refuse_double(named, whole)
        for key, figures in self._models.items():
            if isinstance(figures, Like):
                self._judge_like(self._first[key], figures)

    def result(self) -> PriceFile:
        resolved = {
            key: self._models.get(figures.name.lower(), figures) if isinstance(figures, Like) else figures
            for key, figures in self._models.items()
        }
        return PriceFile(resolved, self._covered, self._plans, self._version, tuple(self._report.notes))

    def _judge_like(self, named: _Named, like: Like) -> None:
        target = like.name.lower()
        covered = target in self._covered or _every_model_of(target) in self._covered
        if covered or isinstance(self._models.get(target), Like):
            told = f"{shown(like.name)}, which has no figures of its own here; give a model that has"
            self._report.refuse(named.line, f"{named.where}: like names {told}")

    def _cover(self, entry: FileEntry, name: str, rating: Rating, plan: str | None) -> None:
        node = entry.node(name)
        if node is None:
            return
        if not isinstance(node.value, list):
            entry.refuse(name, "must be a list of provider/model or provider/*")
            return
        place = f"{entry.where}[{name}]" if entry.where else name
        for index, item in enumerate(node.value):
            if not isinstance(item.value, str):
                self._report.refuse(item.line, f"{place}[{index}]: must be a text")
                continue
            key = self._key(_Named(item.value, f"{place}[{index}]", item.line), whole=True)
            if key is not None:
                self._covered[key] = no_price(rating, self._version)
                self._plans |= {} if plan is None else {key: plan}

    def _key(self, named: _Named, *, whole: bool = False) -> str | None:
        """The name in lower case; None when it is none, or stands in the file already."""
        name = (
            named.text.removesuffix("*") + "x" if whole and named.text.endswith(EVERY_MODEL) else named.text
        )
        if not is_model(name) or "*" in name or len(name) > NAME_MAX:
            wanted = "provider/model or provider/*" if whole else "provider/model"
            self._report.refuse(named.line, f"{named.where}: {shown(named.text)} is not {wanted}")
            return None
        key = named.text.lower()
        first = self._first.setdefault(key, named)
        if first is not named:
            self._refuse_double(named, first)
            return None
        return key

    def _refuse_double(self, named: _Named, first: _Named) -> None:
        told = f"{first.where} on line {first.line} speaks of it as well; say it once"
        self._report.refuse(named.line, f"{named.where}: {shown(named.text)}: {told}")

    def _members(self, entry: FileEntry, name: str, wanted: str) -> Iterator[tuple[str, Node]]:
        node = entry.node(name)
        if node is None:
            return
        if isinstance(node.value, dict):
            yield from node.value.items()
        else:
            entry.refuse(name, f"must be {wanted}")
