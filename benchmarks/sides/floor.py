"""The floor: docker-py makes and starts a box of exactly our kind, with everything laid out before."""

import secrets
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import docker
from sides.marker import SETTLE, Site
from sides.report import Figures, Step


@dataclass(frozen=True)
class Specimen:
    """One of our boxes as the engine describes it, and copies of the files it had."""

    facts: dict[str, Any]
    files: Path


class Floor:
    """What no dispatcher can go below: create and start by hand."""

    name = "floor (docker-py create + start)"

    def __init__(self, site: Site, specimen: Specimen, before: Callable[[Site], None]) -> None:
        self._site, self._before = site, before
        self._api = docker.APIClient(version="auto")
        self._laps: list[dict[str, float]] = []
        self._gate = site.root / "gate"
        self._gate.mkdir(mode=0o711)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._gate / "s"))
        self._socket.listen(8)
        shutil.copytree(specimen.files, site.root / "job")
        self._config = self._like(specimen.facts)

    def _like(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The create call of our box, with folders of its own and without the labels of the installation."""
        root = self._site.root
        own = {
            "/job": root / "job",
            "/workspace": self._site.folder,
            "/gate": self._gate,
        }
        own |= {f"/agent/{name}": root / "job" / "agent" / name for name in ("models.json", "settings.json")}
        asked = facts["HostConfig"]["Mounts"]
        own |= {
            target: self._empty(target)
            for target in (mount["Target"] for mount in asked)
            if target not in own
        }
        mounts = [mount | {"Source": str(own[mount["Target"]])} for mount in asked]
        kept = ("User", "Env", "WorkingDir", "Image", "StopTimeout", "AttachStdin", "Tty")
        config = {key: facts["Config"][key] for key in kept if key in facts["Config"]}
        labels = {key: "floor" for key in facts["Config"]["Labels"] if key.startswith("dev.pidispatch.")}
        return config | {"Labels": labels, "HostConfig": facts["HostConfig"] | {"Mounts": mounts}}

    def _empty(self, target: str) -> Path:
        """A folder of the box's user for a mount whose content decides nothing, such as /outbox."""
        made = self._site.root / target.strip("/").replace("/", "-")
        made.mkdir(mode=0o700)
        self._site.give(made)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._api.close()

    def measure(self, number: int) -> float:
        name = f"pi-floor-{secrets.token_hex(4)}-{number}"
        self._before(self._site)
        with self._site.watched() as watch:
            began = time.time()
            made = self._api.create_container_from_config(self._config, name)["Id"]
            created = time.time()
            try:
                self._api.start(made)
                first = watch.seen()
            finally:
                self._api.remove_container(made, force=True, v=True)
        self._laps.append({"create": created - began, "start to first instruction": first - created})
        time.sleep(SETTLE)
        return (first - began) * 1000

    def steps(self, *, skip: int) -> list[Step]:
        kept = self._laps[skip:]
        return [Step(name, Figures(tuple(laps[name] * 1000 for laps in kept))) for name in kept[0]]
