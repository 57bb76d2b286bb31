-- Moves schedules to their next fire, in the transaction that has decided the last one. A pause that is over is removed.
update leasehold.triggers t
set cursor_at = m.cursor_at, cursor_local = m.cursor_local, last_fire_at = m.last_fire_at,
    next_fire_at = m.next_fire_at, fan_out_at = m.fan_out_at, fan_out_after = m.fan_out_after,
    tzdata = case when t.cron is not null then :tzdata::text end,
    paused_at = null, paused_until = null, pause_reason = null
from unnest(
         :triggers::uuid[], :cursor_ats::timestamptz[], :cursor_locals::text[], :last_fire_ats::timestamptz[],
         :next_fire_ats::timestamptz[], :fan_out_ats::timestamptz[], :fan_out_afters::text[]
     ) as m (id, cursor_at, cursor_local, last_fire_at, next_fire_at, fan_out_at, fan_out_after)
-- A range instead of plain equality: a plan made while the table was empty would read all of it. See finish.sql.
where t.id between m.id and m.id
