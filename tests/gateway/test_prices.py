"""The operator's word over the package's."""

import json

from pidispatch.domain.providers.pricesfile import parse_prices
from pidispatch.domain.providers.rates import Price, Rates, Rating
from pidispatch.gateway.prices.table import FilePrices

BOOK = Price(Rating.PRICED, ((0, Rates(5, 5, 5, 5, 5)),), "genai-prices 1")


class Beneath:
    def find(self, provider, model):
        return BOOK if (provider, model) == ("anthropic", "claude-opus-4-5") else None


class Edited:
    """A file whose content a test changes."""

    def __init__(self, **content):
        self.write(**content)

    def write(self, **content):
        self.file = parse_prices(json.dumps({"version": 1, **content}).encode(), "prices.json")

    def __call__(self):
        return self.file


def test_the_file_comes_before_the_package_and_the_package_before_nothing():
    file = Edited(models={"anthropic/claude-opus-4-5": {"input": 7, "output": 8}})
    prices = FilePrices(file, Beneath())

    said = prices.find("anthropic", "claude-opus-4-5")

    assert (said.tiers[0][1].fresh, said.version) == (7_000_000, file().version)
    file.write()
    assert prices.find("anthropic", "claude-opus-4-5") is BOOK
    assert prices.find("anthropic", "other") is None


def test_a_plan_and_what_is_free_come_before_the_package():
    prices = FilePrices(Edited(free=["vllm/*"], plan={"max": ["anthropic/*"]}), Beneath())

    assert prices.find("anthropic", "claude-opus-4-5").rating is Rating.PLAN
    assert prices.find("vllm", "qwen").rating is Rating.FREE


def test_a_model_that_is_like_another_has_its_price_and_both_versions():
    file = Edited(
        models={"proxy/opus": {"like": "anthropic/claude-opus-4-5"}, "proxy/x": {"like": "nobody/x"}}
    )
    prices = FilePrices(file, Beneath())

    like = prices.find("proxy", "opus")

    assert (like.tiers, like.version) == (BOOK.tiers, f"{file().version}, genai-prices 1")
    assert prices.find("proxy", "x") is None


def test_the_worker_learns_how_a_model_is_rated(make_house):
    edited = Edited(
        free=["groq/free"], plan={"max": ["groq/plan"]}, models={"groq/m": {"input": 1, "output": 1}}
    )
    doors = make_house(prices=FilePrices(edited, Beneath()), keys={"GROQ_API_KEY": "k"}).doors

    rated = {model: doors.provider("groq", model).rating for model in ("free", "plan", "m", "x/y z&w")}

    assert rated == {"free": "free", "plan": "plan", "m": "priced", "x/y z&w": "unknown"}
    assert doors.provider("groq").rating is Rating.UNKNOWN


def test_a_model_that_searches_has_a_price_in_the_file_only_with_its_fee():
    figures = {"input": 7, "output": 8}
    file = Edited(
        models={
            "p/sonar": figures,
            "p/sonar-pro": {**figures, "request": 0.01},
            "p/my-search": {"like": "anthropic/claude-opus-4-5"},
        },
        free=["local/sonar"],
    )
    prices = FilePrices(file, Beneath())

    assert prices.find("p", "sonar") is None
    assert prices.find("p", "sonar-pro").tiers[0][1].request == 10_000
    assert prices.find("p", "my-search") is None
    assert prices.find("local", "sonar").rating is Rating.FREE
