-- What a registration holds, by the database's word: the truth after a reply was lost.
with moment as materialized (
    select leasehold.clock() as now
)
select include(claim_columns), j.worker_id::text
from leasehold.jobs j
where j.status = 'running' and j.worker_id = :worker
