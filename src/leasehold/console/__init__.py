"""The console: server-rendered pages over operations/, for people.

application   makes the ASGI app: pages, files, and the HTTP API beside them
visitors      who a browser belongs to: sessions, the app's own resolver, tokens of forms
recent_values values that all visitors share for a moment
pages         a page with its permission and its scope: one tenant, or all of them
navigation    the pages that the frame links to
health_strip  the lines under the header, only when something is wrong
worker_rows   workers as rows of a table
all_counts    how many jobs of all tenants wait, run and are dead
tenant_rows   tenants as rows of a table, with their figures of the last hour
rendering     Jinja2, and how values are written
queries       the words of the search box
completions   the values that the search box suggests
job_rows      jobs as rows of a table
job_view      all that the page of a job shows
ansi          the colours of log lines
tracebacks    the part of a traceback that is the app's own code
bulk_form     the choice of a change of many jobs
charts        figures over time as shapes
timeline      the attempts of a job as bars
routes/       one module of pages for each topic

Pages work without JavaScript. Needs `pip install leasehold[console]`.
"""

from leasehold.console.application import Console, make_console

__all__ = ["Console", "make_console"]
