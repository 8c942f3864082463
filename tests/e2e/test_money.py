"""Whatever the agent does in its box, every call is counted, paid for at its price, and stopped at the run's cap."""

import json
from collections.abc import Iterator

import pytest

from pidispatch.domain.providers.rates import Price, Rates, Rating, Tokens
from tests.e2e.conftest import an_installation
from tests.e2e.installation import Installation

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e-money")]

CAP = 500_000  # micro-dollars
RATES = {"input": 10, "output": 30, "cacheRead": 1}
PRICE = Price(
    Rating.PRICED, ((0, Rates(10_000_000, 30_000_000, 1_000_000, 10_000_000, 10_000_000)),), "the test's"
)
MODELS = (
    "happy",
    "loop",
    "curl",
    "curl-on",
    "curl-other",
    "second-pi",
    "forge-usage",
    "forge-exit",
    "kill-runner",
)


@pytest.fixture(scope="module")
def paid() -> Iterator[Installation]:
    """An installation whose models have prices, and whose runs have a cap of dollars."""
    for made in an_installation():
        prices = made.root / "prices.json"
        prices.write_text(
            json.dumps(
                {
                    "version": 1,
                    "models": {
                        f"{name}/{model}": RATES for name in ("scripted", "anthropic") for model in MODELS
                    },
                }
            )
        )
        made.environment |= {
            "PIDISPATCH_PRICES_FILE": str(prices),
            "PI_MAX_COST_USD": "0.50",
            "PI_DAILY_COST_USD": "100",
            "PI_MAX_TURNS": "200",
            "PI_ALLOWED_MODELS": ",".join(
                ["anthropic/happy", "scripted/toolfail", *(f"scripted/{model}" for model in MODELS)]
            ),
        }
        made.start()
        yield made


def spent(installation: Installation, public_id: str) -> dict[str, object]:
    return installation.one(
        "SELECT r.cost_micros, r.cost_class, r.calls, count(c.id) AS rows, coalesce(sum(c.cost_micros), 0)::bigint AS sum,"
        " count(*) FILTER (WHERE c.state <> 'settled') AS unsettled,"
        " (SELECT v.settled FROM reservations v JOIN spend_windows w ON w.id = v.window_id"
        "   WHERE v.run_id = r.id AND w.unit = 'micros') AS settled"
        " FROM runs r LEFT JOIN provider_calls c ON c.run_id = r.id WHERE r.public_id = :id GROUP BY r.id",
        id=public_id,
    )


def owed(installation: Installation, folder_name: str) -> tuple[int, int]:
    """What the provider itself served for the run in this folder: calls with an answer, and micro-dollars."""
    usages = [
        asked.usage
        for asked in installation.provider.asked
        if f"work in {folder_name}" in json.dumps(asked.body) and asked.usage
    ]
    costs = [
        PRICE.cost(Tokens(fresh=use.tokens_in, out=use.tokens_out, cache_read=use.cache_read))
        for use in usages
    ]
    return len(usages), sum(costs)


PROVIDERS = ("scripted", "anthropic")
BESIDE = {"curl": 5, "second-pi": 4, "forge-usage": 2, "forge-exit": 1, "kill-runner": 1}
CAPPED = ("loop", "curl-on")


@pytest.fixture(scope="module")
def started(paid):
    """Runs that are at work beside each other, by the names of their folders; each has its public id."""
    asked = {f"paid-{provider}": ("happy", "--provider", provider) for provider in PROVIDERS}
    asked |= {f"beside-{model}": (model,) for model in BESIDE} | {
        f"cap-{model}": (model,) for model in CAPPED
    }
    asked["granted"] = ("loop",)
    answers = {
        name: paid.run(paid.repository(name), *more, model=model, wait=False)["public_id"]
        for name, (model, *more) in asked.items()
    }
    paid.ended(*answers.values())
    return answers


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_costs_what_its_calls_cost(paid, started, provider):
    public_id = started[f"paid-{provider}"]

    calls, micros = owed(paid, f"paid-{provider}")
    found = spent(paid, public_id)
    assert paid.record(public_id)["outcome"] == "completed"
    assert calls == found["rows"] == 4
    assert found["cost_micros"] == found["sum"] == found["settled"] == micros
    assert (found["cost_class"], found["unsettled"]) == ("metered", 0)


@pytest.mark.parametrize("model", BESIDE)
def test_what_an_agent_does_beside_pi_or_says_of_itself_changes_no_figure(paid, started, model):
    calls, micros = owed(paid, f"beside-{model}")
    found = spent(paid, started[f"beside-{model}"])
    assert calls >= BESIDE[model]
    assert found["cost_micros"] == found["sum"] == found["settled"] == micros
    assert found["unsettled"] == 0


@pytest.mark.parametrize("model", CAPPED)
def test_nothing_passes_the_cap(paid, started, model):
    calls, micros = owed(paid, f"cap-{model}")
    record = paid.record(started[f"cap-{model}"])
    assert (record["outcome"], record["reason"]) == ("policy", "cost-cap"), record
    found = spent(paid, started[f"cap-{model}"])
    assert calls > 5
    assert CAP // 2 < micros <= CAP
    assert found["cost_micros"] == found["settled"] == micros


def test_what_was_granted_is_all_that_the_run_that_goes_on_may_spend(paid, started):
    before, spent_before = owed(paid, "granted")

    new = json.loads(paid.pidispatch("grant", started["granted"], "+0.30", "--json").stdout)["public_id"]
    paid.ended(new)

    record, found = paid.record(new), spent(paid, new)
    calls, micros = owed(paid, "granted")
    assert (record["outcome"], record["reason"]) == ("policy", "cost-cap"), record
    assert calls > before
    assert 0 < micros - spent_before <= 300_000
    assert found["cost_micros"] == found["settled"] == micros - spent_before
    assert (
        paid.one("SELECT session_resumed FROM runs WHERE public_id = :id", id=new)["session_resumed"] is True
    )


def test_a_model_without_a_price_is_refused_before_the_run(paid):
    answer = paid.run(paid.repository("unpriced"), model="toolfail")

    record = paid.record(answer["public_id"])
    assert (record["outcome"], record["reason"], record["attempt"]) == ("policy", "cost-cap-unenforceable", 0)


def test_a_model_that_is_not_allowed_is_refused_in_flight(paid):
    folder = paid.repository("other-model")

    answer = paid.run(folder, model="curl-other")

    assert {asked.model for asked in paid.provider.asked if folder.name in json.dumps(asked.body)} == {
        "curl-other"
    }
    refused = paid.one(
        "SELECT refusals, refused_reason FROM run_attempts a JOIN runs r ON r.id = a.run_id WHERE r.public_id = :id",
        id=answer["public_id"],
    )
    assert refused == {"refusals": 1, "refused_reason": "model-not-allowed"}
    assert answer["outcome"] == "completed"
