"""pg-boss, for Node: see bench/node/pg-boss.mjs."""

from bench.systems.node import NodeSystem

SYSTEM = NodeSystem(
    name="pg-boss",
    settings="Node; batchSize 500, burstWhenBatchFull, notify and useListenNotify on, polling every 0.5 s beside it; "
    "bulk by insert",
    unfinished="select count(*) from pgboss.job where state < 'completed' and name = 'bench'",
)
