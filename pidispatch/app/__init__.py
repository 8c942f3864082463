"""Join things: the only place that knows every adapter, and gives each flow the ones it needs."""
