"""Verbs and views, once for the command line, the HTTP API, the console and the app.

jobs      reads and changes the jobs of a tenant
enqueue   validates jobs, pins their versions and places them
catalog   definitions and their versions in the database
admin     definitions, limits, pauses, tenants, workers, prune
series    figures over time, for charts
usage     attempts, run time and processor time by the hour
activity  the state of now, for people who watch
tokens    API tokens, and whom they belong to
sessions  browsers that are signed in to the console
lookup    finds a job by its id or the end of it; lists jobs by state
views     records as JSON documents and as phrases for people
statuses  exit code and HTTP status of each error
"""
