-- Stops the clock of a test database at this moment; without one, lets it go again.
update leasehold.test_clock set moved = interval '0', stopped_at = :at;
