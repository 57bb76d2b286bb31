-- Names the channels on which a worker listens: its own, and the one for all workers.
select leasehold.channel(:worker), leasehold.channel_for_all()
