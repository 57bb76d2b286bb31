-- Records that a migration was applied.
insert into leasehold.migrations (version, name, needs) values (:version, :name, :needs)
