-- Wakes workers for jobs that this transaction has added to these definitions, due at these times.
select leasehold.wake(:definitions::text[], array_fill(:tenant::text, array[cardinality(:definitions::text[])]),
                      :dues::timestamptz[]) as woken
