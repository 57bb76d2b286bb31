-- Where a worker listens: its own channel, and the one for everybody.
select leasehold.channel(:worker), leasehold.channel_for_all()
