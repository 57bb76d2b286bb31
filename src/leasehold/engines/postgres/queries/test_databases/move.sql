-- Moves the clock of a test database, also one that stands still.
update leasehold.test_clock set moved = moved + :by;
