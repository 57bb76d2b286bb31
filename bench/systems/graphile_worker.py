"""Graphile Worker, for Node: see bench/node/graphile-worker.mjs."""

from bench.systems.node import NodeSystem

SYSTEM = NodeSystem(
    name="graphile-worker",
    settings="Node; as on its page on performance: 24 concurrent jobs, a pool of 25, a local queue of 500, "
    "completions batched without delay; bulk by addJobs; it deletes what has finished",
    unfinished="select count(*) from graphile_worker.jobs",
)
