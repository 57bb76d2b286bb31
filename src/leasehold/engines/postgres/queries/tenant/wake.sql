-- Wakes who can run what this transaction has put into these definitions' lanes, due at these times.
select leasehold.wake(:definitions::text[], array_fill(:tenant::text, array[cardinality(:definitions::text[])]),
                      :dues::timestamptz[]) as woken
