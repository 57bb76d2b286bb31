-- Ids as the engine makes them: the milliseconds first, so that they come in order.
create function pg_temp.uuid7(milliseconds bigint) returns uuid language sql volatile as $$
    select encode(set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 112), 'hex')::uuid
    from (
        select overlay(uuid_send(gen_random_uuid()) placing substring(int8send(milliseconds) from 3) from 1 for 6)
    ) as made (bytes)
$$
