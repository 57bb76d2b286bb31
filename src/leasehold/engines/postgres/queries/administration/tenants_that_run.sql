-- Lists the tenants that have a running job.
select distinct tenant_id as id from leasehold.jobs where status = 'running'
