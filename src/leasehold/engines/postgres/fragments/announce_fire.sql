-- Tells all schedulers when the schedule of the row t fires, in seconds from now by the database's clock.
case when t.next_fire_at is not null then pg_notify(
    leasehold.channel_for_all(),
    format('fire %s', greatest(0, round(extract(epoch from t.next_fire_at - leasehold.clock())::numeric, 3))))
end
