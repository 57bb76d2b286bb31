"""Durable background jobs for multi-tenant Python apps, in the Postgres you already run."""

__version__ = "0.1.0"
