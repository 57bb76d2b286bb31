-- Locks crons whose next fire was computed by an older tzdata, after one of them. One that fires just now is left out.
select include(trigger_columns), t.tzdata from leasehold.triggers t
where t.cron is not null and t.next_fire_at is not null and t.tzdata < :tzdata::text
  and (t.tzdata, t.id) > (:after_tzdata::text, :after::uuid)
order by t.tzdata, t.id limit :limit
for update of t skip locked
