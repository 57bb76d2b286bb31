-- Where all of it lives.
create schema leasehold;
