-- Names the channel that tells of ended jobs which a caller awaits.
select leasehold.channel_for_results()
