"""Make and end the locked-down containers that jobs run in."""

from typing import Any

import docker
import docker.errors
from docker.types import LogConfig, Ulimit
from docker.types import Mount as DockerMount

from pidispatch.domain.box.sandbox import PIDS_LIMIT, BoxSpec, Mount
from pidispatch.domain.runs.capabilities import has_own_init
from pidispatch.runtime.engine import translated
from pidispatch.runtime.logs import ENGINE_ERROR, Tail, log_frames
from pidispatch.runtime.watch import DockerWatch

GONE_SECONDS = 15
FIRST_LINES = 64


class DockerBoxes(DockerWatch):
    """`ports.Boxes` and `ports.BoxWatch` on a Docker engine.

    Only the low-level calls are used: `containers.run` pulls an image that is missing.
    """

    def create(self, spec: BoxSpec) -> str:
        with translated(f"create the box {spec.name}"):
            api = self._engine.api
            made = api.create_container(
                spec.image,
                name=spec.name,
                command=list(spec.command) if spec.command is not None else None,
                entrypoint=list(spec.entrypoint) if spec.entrypoint is not None else None,
                user=f"{spec.uid}:{spec.gid}",
                environment=[f"{name}={value}" for name, value in spec.env.items()],
                working_dir=spec.working_dir,
                labels=dict(spec.labels),
                stop_timeout=spec.stop_timeout,
                stdin_open=spec.takes_input,
                host_config=_host_config(api, spec, engine_init=not self._brings_its_init(spec)),
                # Else docker-py puts the proxies of ~/.docker/config.json, password and all, into the box.
                use_config_proxy=False,
            )
        return str(made["Id"])

    def _brings_its_init(self, spec: BoxSpec) -> bool:
        """Only by its own entrypoint, and by the image's word; everything else gets the engine's init."""
        if spec.entrypoint is not None:
            return False
        try:
            found: dict[str, Any] = self._engine.api.inspect_image(spec.image)  # type: ignore[no-untyped-call]
        except docker.errors.NotFound:
            return False  # creating it says so
        return has_own_init((found.get("Config") or {}).get("Labels") or {})

    def start(self, container_id: str) -> None:
        with translated(f"start {container_id[:12]}"):
            self._engine.api.start(container_id)

    def stop(self, container_id: str, *, grace: int) -> None:
        with translated(f"stop {container_id[:12]}"):
            try:
                self._engine.api.stop(container_id, timeout=grace)
            except docker.errors.NotFound:
                return

    def remove(self, container_id: str) -> None:
        with translated(f"remove {container_id[:12]}"):
            try:
                self._engine.api.remove_container(container_id, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                if error.status_code != 409 or "already in progress" not in str(error.explanation):
                    raise
                self._await_removal(container_id)

    def _await_removal(self, container_id: str) -> None:
        try:
            self._engine.api.wait(container_id, timeout=GONE_SECONDS, condition="removed")
        except docker.errors.NotFound:
            return

    def tail(self, container_id: str, limit: int) -> bytes:
        # dockerd keeps lines in pieces of at most 16 KiB, each at least a byte: `limit` of them always hold
        # enough, but may be 100 MB to stream. Most often far fewer will do.
        lines = min(FIRST_LINES, limit)
        while True:
            kept = self._last_lines(container_id, lines, limit)
            if kept.total >= limit or lines >= limit:
                return kept.bytes()
            lines = min(lines * 32, limit)

    def _last_lines(self, container_id: str, lines: int, limit: int) -> Tail:
        kept = Tail(limit)
        with translated(f"read the end of the output of {container_id[:12]}"):
            try:
                with log_frames(self._engine.api, container_id, tail=str(lines)) as frames:
                    for stream, piece in frames:
                        # A broken log file is told in the stream, as if the box had said it.
                        if stream != ENGINE_ERROR:
                            kept.add(piece)
            except docker.errors.APIError as error:
                # 409: dead or being removed.
                if error.status_code not in {404, 409}:
                    raise
        return kept


def _host_config(api: docker.APIClient, spec: BoxSpec, *, engine_init: bool) -> dict[str, Any]:
    config: dict[str, Any] = api.create_host_config(
        init=engine_init,
        cap_drop=["ALL"],
        # Nothing about seccomp here: the engine's own filter stays on.
        security_opt=["no-new-privileges"],
        pids_limit=PIDS_LIMIT,
        ulimits=[Ulimit(name=name, soft=most, hard=most) for name, most in spec.ulimits.items()],
        mem_limit=spec.memory,
        memswap_limit=spec.memory,
        nano_cpus=round(spec.cpus * 1_000_000_000),
        shm_size=spec.shm_size,
        network_mode="none",
        read_only=True,
        tmpfs=spec.tmpfs,
        mounts=[_bind(mount) for mount in spec.mounts],
        ipc_mode="private",
        restart_policy={"Name": "no"},
        auto_remove=False,
        log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": "50m", "max-file": "2"}),
    )
    return config


def _bind(mount: Mount) -> DockerMount:
    """A bind whose missing source is an error: a `binds` string would make root-owned directories instead."""
    return DockerMount(target=mount.target, source=mount.source, type="bind", read_only=mount.read_only)
