-- The error group of the row j.
leasehold.error_group(j.definition, j.last_error_code, j.last_error)
