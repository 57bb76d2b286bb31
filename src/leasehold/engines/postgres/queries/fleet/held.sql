-- Lists the claims of a registration: the truth after an answer was lost.
with moment as materialized (
    select leasehold.clock() as now
)
select include(claim_columns), j.worker_id::text
from leasehold.jobs j
where j.status = 'running' and j.worker_id = :worker
