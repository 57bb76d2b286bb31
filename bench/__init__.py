"""Measures Leasehold against its bars and its peers: `make bench`, see docs/how-to/benchmark.md."""
