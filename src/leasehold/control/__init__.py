"""The verbs of the command line, once over a database and once over the HTTP API.

protocol   Control: what a command asks for, by topic
database   DatabaseControl: by operations/, on a database
server     ServerControl: by requests to a server, with a token
records    reads records from the documents of a server
"""

from leasehold.control.database import DatabaseControl
from leasehold.control.protocol import Control, JobQuery
from leasehold.control.server import ServerControl

__all__ = ["Control", "DatabaseControl", "JobQuery", "ServerControl"]
