"""Judge the names that an operator writes. On its own: every process asks as it reads its settings."""

import re

NAME_WANTED = "letters, digits, dot, dash and underscore"
MODELS_MAX = 16
_NAME = re.compile(r"[A-Za-z0-9._-]+")
PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MODEL = re.compile(r"(?=.{1,64}$)[~@]?[A-Za-z0-9][A-Za-z0-9._:/@-]*")


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def is_provider_and_model(text: str) -> bool:
    """Whether it is `provider/model`, where the model's name may hold slashes."""
    provider, _, model = text.partition("/")
    return bool(PROVIDER.fullmatch(provider) and MODEL.fullmatch(model))
