-- Gives back ids that were taken for jobs which then were not created, their dedupe key being held.
delete from leasehold.dedupe_holds where tenant_id = :tenant and dedupe_hash = any (:id_hashes::bytea[])
