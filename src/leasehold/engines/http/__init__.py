"""The engine for workers over HTTP: a server of the API has the database, and this side has a worker token only."""
