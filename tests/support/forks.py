"""Processes of a test's own, forked from one that has imported what they run: none of them imports it again."""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.storm.worker", "tests.storm.spender", "tests.flows.victim"])
