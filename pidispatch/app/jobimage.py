"""Look at the configured job image, and build our own."""

from collections.abc import Callable

from pidispatch import shipped
from pidispatch.app.installation import Installation
from pidispatch.runtime.image import ImageCheck, check
from pidispatch.runtime.imagebase import Base
from pidispatch.runtime.imagebuild import build

Say = Callable[[str], None]

OWN_IMAGE = "pi-job:latest"


def check_image(here: Installation) -> ImageCheck:
    """Compare it with the files this version ships. Raises EngineUnavailable, ImageBuildFailed."""
    return check(here.settings.job_image, image_dir=shipped.folder("image"), engine=here.runtime().engine)


def ensure_image(here: Installation, say: Say) -> None:
    """Build our own image when it is missing or old; another's image is only looked for."""
    state = check_image(here)
    if state.ok:
        return
    if here.settings.job_image != OWN_IMAGE:
        say(f"image {here.settings.job_image}: {'; '.join(state.problems)}")
        return
    build_image(here, say)


def build_image(here: Installation, say: Say, *, base: Base = "auto") -> str:
    """Build the job image under the configured name; returns its id."""
    return build(
        here.settings.job_image,
        image_dir=shipped.folder("image"),
        work_dir=here.settings.home / "cache" / "image",
        progress=say,
        base=base,
        engine=here.runtime().engine,
    )
