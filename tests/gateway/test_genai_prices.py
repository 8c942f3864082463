"""The figures of genai-prices: which names have a price, and that it is the package's own reckoning."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

import pytest
from genai_prices import Usage
from genai_prices.data import providers
from genai_prices.types import ModelPrice, Tier, TieredPrices

from pidispatch.domain.providers.rates import Rates, Rating, Tokens
from pidispatch.gateway.prices.genai import BOOKS, GenaiPrices, tiers_of
from pidispatch.gateway.providers import KNOWN

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PRICES = GenaiPrices(lambda: NOON)
OURS = {theirs: ours for ours, theirs in BOOKS.items()}
BY_ID = {provider.id: provider for provider in providers}
SONNET = (
    (0, Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)),
    (200_000, Rates(6_000_000, 22_500_000, 600_000, 7_500_000, 12_000_000)),
)


def at(*when):
    return GenaiPrices(lambda: datetime(*when, tzinfo=UTC))


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("anthropic", "claude-sonnet-4-5-latest"),
        ("anthropic", "Claude-Sonnet-4-5-20250929"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
    ],
)
def test_a_model_has_its_price_by_every_name_of_it(provider, model):
    price = PRICES.find(provider, model)

    assert (price.rating, price.tiers) == (Rating.PRICED, SONNET)
    assert price.version.startswith("genai-prices 0.")


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-opus-4-1-20250805"),
        ("anthropic", "claude-sonnet-4-20250514"),
        ("anthropic", "claude-3-5-haiku-latest"),
        ("baseten", "moonshotai/Kimi-K2.6"),
        ("cerebras", "gpt-oss-120b"),
        ("deepseek", "deepseek-chat"),
        ("groq", "openai/gpt-oss-120b"),
        ("huggingface", "openai/gpt-oss-120b:cerebras"),
        ("minimax", "MiniMax-M2"),
        ("minimax", "MiniMax-M2.7-highspeed"),
        ("mistral", "mistral-large-latest"),
        ("mistral", "magistral-small-2509"),
        ("moonshotai", "kimi-k2-turbo-preview"),
        ("openai", "gpt-5.2"),
        ("openai", "gpt-5-nano-2025-08-07"),
        ("openai", "gpt-4o-2024-05-13"),
        ("openrouter", "openai/gpt-5.2"),
        ("openrouter", "z-ai/glm-4.6"),
        ("together", "openai/gpt-oss-120b"),
        ("xai", "grok-4"),
        ("zai", "glm-4.6"),
    ],
)
def test_real_names_of_each_provider_have_a_price(provider, model):
    assert PRICES.find(provider, model) is not None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        # A variant that the data would take for the model whose name it begins with.
        ("anthropic", "claude-opus-4-10"),
        ("anthropic", "claude-sonnet-4-5-fast"),
        ("anthropic", "claude-opus-4-7-max-20270101"),
        ("anthropic", "my-claude-v2"),
        ("deepseek", "deepseek-chat-pro"),
        ("moonshotai", "kimi-k2.5-turbo"),
        ("openai", "ft:gpt-4o-2024-08-06:acme::1"),
        # A snapshot that nobody priced may cost more than the others, as one of gpt-4o does.
        ("openai", "gpt-5.2-2031-01-01"),
        # Another provider's model, or a provider with no book, whatever the model is called.
        ("openai", "claude-sonnet-4-5"),
        ("anthropic", "anthropic/claude-sonnet-4-5"),
        ("vllm", "gpt-5.2"),
        ("azure", "gpt-5.2"),
        ("x-ai", "grok-4"),
        ("kimi-coding", "kimi-k2.5"),
        ("", "gpt-5.2"),
        # Who answers is not said, or not known.
        ("huggingface", "openai/gpt-oss-120b"),
        ("huggingface", "openai/gpt-oss-120b:fastest"),
        ("openrouter", "openrouter/auto"),
        ("openrouter", "openai/gpt-5.2:online"),
        # Free and priced by nothing we count: nobody said so in our file.
        ("openrouter", "google/gemma-4-31b-it:free"),
        ("openai", "gpt-4o-audio-preview"),
        ("openai", "gpt-realtime"),
        ("openai", "gpt-image-1"),
        ("openai", "whisper-1"),
        ("openai", "text-embedding-3-small"),
        ("mistral", "voxtral-small-latest"),
        ("openrouter", "google/gemini-3-pro-image"),
        ("openai", ""),
        ("openai", "gpt-5.2\n"),
        ("openai", "x" * 100_000),
    ],
)
def test_what_is_not_surely_priced_has_no_price(provider, model):
    assert PRICES.find(provider, model) is None


def test_every_book_is_there_and_of_a_provider_that_we_know():
    assert set(BOOKS) <= set(KNOWN)
    assert set(BOOKS.values()) <= set(BY_ID)


def _micros(amount):
    return int((amount * 1_000_000).to_integral_value(ROUND_CEILING))


def _theirs(model, provider, used):
    usage = Usage(
        input_tokens=used.asked,
        output_tokens=used.out,
        cache_read_tokens=used.cache_read,
        cache_write_tokens=used.cache_write,
    )
    return _micros(model.calc_price(usage, provider, genai_request_timestamp=NOON).total_price)


def _priced():
    for provider in providers:
        for model in provider.models if provider.id in OURS else ():
            price = PRICES.find(OURS[provider.id], model.id)
            if price is not None:
                yield provider, model, price


def test_every_price_is_what_the_package_reckons():
    """Ours may be above by the rounding: a micro-dollar a million tokens of each kind."""
    seen = 0
    for provider, model, price in _priced():
        for start, _ in price.tiers:
            for used in (
                Tokens(fresh=start, out=1_000),
                Tokens(fresh=start + 1, out=1_000),
                Tokens(fresh=1, cache_read=start, out=7),
                Tokens(fresh=3, cache_read=5_000, cache_write=start + 7, out=900),
            ):
                theirs = _theirs(model, provider, used)
                assert theirs <= price.cost(used) <= theirs + 3, (provider.id, model.id, used)
                seen += 1
    assert seen > 2_000


def test_each_model_is_the_one_that_the_package_means():
    for provider, model, _ in _priced():
        assert provider.find_model(model.id) is model


def test_a_price_is_that_of_the_moment():
    assert at(2025, 6, 9, 23, 59).find("openai", "o3").tiers[0][1].fresh == 10_000_000
    assert at(2025, 6, 10).find("openai", "o3").tiers[0][1].fresh == 2_000_000
    peak, off = (at(*when).find("deepseek", "deepseek-chat") for when in ((2025, 4, 1, 1), (2025, 4, 1, 17)))
    assert (peak.tiers[0][1].out, off.tiers[0][1].out) == (1_100_000, 550_000)


def prices(**more):
    return ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2), **more)


def test_a_missing_price_of_the_cache_is_that_of_input():
    assert tiers_of(prices(), "x/y") == ((0, Rates(1_000_000, 2_000_000, 1_000_000, 1_000_000, 1_000_000)),)
    assert tiers_of(prices(), "anthropic/claude")[0][1].cache_write_1h == 2_000_000


def test_prices_per_request_and_of_reasoning_are_never_too_low():
    ((_, found),) = tiers_of(
        prices(requests_kcount=Decimal("5.0001"), output_reasoning_mtok=Decimal(3)), "x/y"
    )

    assert (found.request, found.out) == (5_001, 3_000_000)


def test_a_part_of_a_micro_dollar_a_million_tokens_is_a_whole_one():
    ((_, found),) = tiers_of(prices(cache_read_mtok=Decimal("0.09999999999999999")), "x/y")

    assert found.cache_read == 100_000


def test_each_price_has_tiers_of_its_own():
    tiered = TieredPrices(base=Decimal(1), tiers=[Tier(start=100, price=Decimal(5))])
    odd = TieredPrices(base=Decimal(2), tiers=[Tier(start=50, price=Decimal(3))])

    found = tiers_of(ModelPrice(input_mtok=tiered, output_mtok=odd, cache_write_mtok=Decimal(9)), "claude")

    assert [(start, rates.fresh, rates.out) for start, rates in found] == [
        (0, 1_000_000, 2_000_000),
        (50, 1_000_000, 3_000_000),
        (100, 5_000_000, 3_000_000),
    ]
    assert [rates.cache_write_1h for _, rates in found] == [9_000_000, 9_000_000, 10_000_000]


@pytest.mark.parametrize(
    "broken",
    [
        ModelPrice(),
        ModelPrice(input_mtok=Decimal(1)),
        ModelPrice(output_mtok=Decimal(1)),
        ModelPrice(input_mtok=Decimal(0), output_mtok=Decimal(1)),
        ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(0)),
        prices(audio_hours=Decimal(1)),
        prices(input_audio_mtok=Decimal(1)),
    ],
)
def test_a_gap_is_no_price(broken):
    assert tiers_of(broken, "x/y") is None


def test_the_data_is_loaded_when_it_is_needed_and_once():
    said = subprocess.run(
        [sys.executable, "-c", "import sys, pidispatch.app.gateway; print('genai_prices.data' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "False"

    fresh, found = GenaiPrices(lambda: NOON), []
    threads = [
        threading.Thread(target=lambda: found.append(fresh.find("openai", "gpt-5.2"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [PRICES.find("openai", "gpt-5.2")] * 8


def test_warming_makes_the_first_look_a_quick_one():
    cold = GenaiPrices(lambda: NOON)

    cold.warm()

    assert cold._books is not None
    assert cold.version == PRICES.version


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openrouter", "perplexity/sonar"),
        ("openrouter", "perplexity/sonar-pro"),
        ("openrouter", "perplexity/sonar-pro-search"),
        ("openrouter", "perplexity/sonar-reasoning-pro"),
        ("openrouter", "perplexity/sonar-deep-research"),
        ("openrouter", "perplexity/llama-3.1-sonar-large-128k-online"),
        ("openrouter", "openai/gpt-4o-search-preview"),
        ("openrouter", "openai/gpt-4o-mini-search-preview"),
        ("openrouter", "openai/o3-deep-research"),
        ("openrouter", "openai/o4-mini-deep-research"),
        ("openrouter", "relace/relace-search"),
        ("openrouter", "openai/gpt-4o:online"),
        ("openai", "gpt-5-search-api"),
        ("openai", "gpt-4o-search-preview-2025-03-11"),
        ("openai", "o3-deep-research"),
        ("groq", "groq/compound"),
    ],
)
def test_a_model_that_searches_by_itself_has_no_price_without_its_fee(provider, model):
    assert PRICES.find(provider, model) is None


@pytest.mark.parametrize("model", ["nousresearch/hermes-4-405b", "nousresearch/hermes-4-70b"])
def test_who_only_has_research_in_their_name_keep_their_price(model):
    assert PRICES.find("openrouter", model) is not None


def test_the_window_of_a_model_comes_with_its_price():
    assert PRICES.find("anthropic", "claude-opus-4-5").window == 200_000
