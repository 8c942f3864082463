"""Say in SQL what the calls of a run came to, and how far that may be trusted; `c` is `provider_calls`."""

_OVER = "FILTER (WHERE c.state <> 'held')"
# A turn is a call that was answered, or may have been: who hangs up on each answer has them all the same.
TURN = """
  (c.state <> 'held'
   AND (c.state = 'assumed' OR coalesce(c.stop_reason IN ('stop', 'tool_use', 'length'), false) OR c.counted_tokens > 0))
"""
# A call without a price is unrated. Before calls that nobody could measure had a class of their own they were floors.
_CLASS = """
  CASE WHEN c.cost_micros IS NULL OR c.cost_class IS NULL THEN 'unrated'
       WHEN c.state = 'assumed' AND c.cost_class = 'floor' THEN 'assumed'
       WHEN NOT c.measured AND c.cost_class = 'metered' THEN 'estimate' ELSE c.cost_class END
"""


def _all(word: str) -> str:
    return f"bool_and({_CLASS} = '{word}') {_OVER}"


def _any(word: str) -> str:
    return f"bool_or({_CLASS} = '{word}') {_OVER}"


# The worst of the calls speaks for all: floor, then estimate, then assumed, then metered, then plan. Calls without a price beside
# others make the sum a floor; only alone they are unrated. Without any call nothing was spent, and that is exact.
COST_CLASS = f"""
CASE WHEN {_all("unrated")} THEN 'unrated' WHEN {_any("floor")} OR {_any("unrated")} THEN 'floor'
     WHEN {_any("estimate")} THEN 'estimate' WHEN {_any("assumed")} THEN 'assumed' WHEN {_all("plan")} THEN 'plan' ELSE 'metered' END
"""
COST = f"CASE WHEN {_all('unrated')} THEN NULL ELSE coalesce(sum(c.cost_micros) {_OVER}, 0)::bigint END"
HELD = "coalesce(sum(c.held_micros) FILTER (WHERE c.state = 'held'), 0)::bigint"
PRICES = f"string_agg(DISTINCT c.price_version, ', ' ORDER BY c.price_version) {_OVER}"
