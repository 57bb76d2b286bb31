-- Finds when the oldest waiting job of a tenant was queued. Ids are ordered by time, and few active jobs do not wait.
select j.queued_at from leasehold.jobs j
where j.tenant_id = :tenant and j.status = 'queued' order by j.id limit 1
