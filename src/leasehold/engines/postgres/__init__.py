"""The Postgres engine. Importing it imports the driver, so only `engine_for` does, when a URL asks for it."""
