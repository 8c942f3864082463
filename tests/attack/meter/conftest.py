from tests.gateway.conftest import make_house, manual, run_dir, scripted

__all__ = ["make_house", "manual", "run_dir", "scripted"]
