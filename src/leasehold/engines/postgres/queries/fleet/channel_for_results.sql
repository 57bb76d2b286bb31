-- Where it is told that an awaited job has ended.
select leasehold.channel_for_results()
