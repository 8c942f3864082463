"""Look at the configured job image."""

from pidispatch import shipped
from pidispatch.config import Settings
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import ImageCheck, check


def check_image(settings: Settings) -> ImageCheck:
    """Compare it with the files this version ships. Raises EngineUnavailable, ImageBuildFailed."""
    engine = Engine()
    try:
        return check(settings.job_image, image_dir=shipped.folder("image"), engine=engine)
    finally:
        engine.close()
