-- Passes a wake on, to one other sleeper that serves something of the same.
with other as (
    select s.id from leasehold.sleepers s
    where s.worker_id <> :worker and s.definitions && :definitions::text[]
      and (s.tenants is null or :tenants::text[] is null or s.tenants && :tenants::text[])
      and leasehold.listens(s.worker_id)
    order by s.id limit 1
    for update skip locked
),
woken as (
    delete from leasehold.sleepers s using other where s.id = other.id returning s.worker_id
)
select pg_notify(leasehold.channel(worker_id), 'work') from woken
