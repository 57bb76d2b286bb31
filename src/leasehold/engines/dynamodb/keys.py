"""Keys of the items: how tenants, jobs, times and shards are written. No I/O.

    PK                                        SK
    tenant#<tenant>#job#<job>                 job                          the job; it never moves
                                              attempt#<number>#<worker>    an ended attempt, but the last
                                              log#<number>#<worker>#…      log lines of an attempt
    tenant#<tenant>#scheduled-job#<hash>      while-active | window        who holds a dedupe key
    catalog                                   tenant#… | definition#…      names to list
    definition#<key>                          current | version#<number>
    audit | audit#tenant#… | audit#action#…   <time>#<id>                  changes by administrators
    control                                   version | scope#…            limits, pauses, inactive definitions
    fleet                                     worker#<worker>              registrations
    tokens                                    token#<public id>            API tokens
    session#<hash>                            session                      sessions of browsers
    snapshot                                  fleet                        figures for gauges
    usage#<tenant>                            <hour>#<definition>          what ended attempts have used
    worker#<worker>                           claims                       the jobs that a worker may have claimed

A key is never parsed from its front: a tenant or a definition may contain any character. Job ids, hashes and numbers
at the end have a fixed form.
"""

from datetime import UTC, datetime
from hashlib import sha256
from zlib import crc32

from leasehold.model.job import JobId, TenantId, WorkerId
from leasehold.model.token import TokenId

Key = tuple[str, str]
"""PK and SK of an item."""

JOB = "job"
CATALOG = "catalog"
CONTROL = "control"
FLEET = "fleet"
TOKENS = "tokens"
CURRENT = "current"
CLAIMS = "claims"
SETTINGS: Key = (CONTROL, "settings")
CONTROL_VERSION: Key = (CONTROL, "version")
META: Key = ("meta", "schema")

_ID_LENGTH = 36
_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


def timestamp(moment: datetime) -> str:
    """Writes a moment in UTC with a fixed width, so that texts sort as moments do."""
    utc = moment.astimezone(UTC)
    return f"{utc.year:04d}{utc.strftime('-%m-%dT%H:%M:%S')}.{utc.microsecond:06d}Z"


def read_timestamp(text: str) -> datetime:
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)


def job_pk(tenant: TenantId, job: JobId) -> str:
    return f"tenant#{tenant}#job#{job}"


def job_key(tenant: TenantId, job: JobId) -> Key:
    return job_pk(tenant, job), JOB


def read_job_pk(pk: str) -> tuple[TenantId, JobId]:
    tenant = pk[len("tenant#") : -(_ID_LENGTH + len("#job#"))]
    return TenantId(tenant), JobId(pk[-_ID_LENGTH:])


def attempt_sk(number: int, worker: WorkerId) -> str:
    return f"attempt#{number:010d}#{worker}"


def log_prefix(attempt: int) -> str:
    return f"log#{attempt:010d}#"


def log_sk(attempt: int, worker: WorkerId, last: int, first: int) -> str:
    """Begins with the last line of the chunk, so that a reader finds the chunks behind a line by their keys."""
    return f"{log_prefix(attempt)}{last:010d}#{first:010d}#{worker}"


def shard_of(job: JobId, shards: int) -> int:
    return crc32(job.encode()) % shards


def due_pk(definition: str, shard: int, shards: int) -> str:
    """Returns the partition of the due index. It has the definition, so that a worker reads only jobs it can run."""
    return f"job#{definition}" if shards == 1 else f"job#{definition}#{shard}"


DUE_FROM = "scheduled#"


def due_sk(moment: datetime, job: JobId) -> str:
    return f"{DUE_FROM}{timestamp(moment)}#{job}"


def due_until(moment: datetime) -> str:
    """Returns the end of the keys that are due at this moment, jobs of the same microsecond included."""
    return f"{DUE_FROM}{timestamp(moment)}~"


def read_due_sk(sk: str) -> datetime:
    return read_timestamp(sk[len(DUE_FROM) : -(_ID_LENGTH + 1)])


def list_pk(tenant: TenantId, status: str, shard: int) -> str:
    return f"tenant#{tenant}#{status}#{shard}"


def prune_pk(shard: int) -> str:
    return f"prune#{shard}"


def hold_pk(tenant: TenantId, key: str) -> str:
    """Returns the PK of a dedupe key. The tenant is part of the hash, so that no key can be taken for another's."""
    digest = sha256(f"{tenant}\0{key}".encode()).hexdigest()
    return f"tenant#{tenant}#scheduled-job#{digest}"


def definition_pk(key: str) -> str:
    return f"definition#{key}"


def version_sk(version: int) -> str:
    return f"version#{version:010d}"


def tenant_sk(tenant: TenantId) -> str:
    return f"tenant#{tenant}"


def worker_sk(worker: WorkerId) -> str:
    return f"worker#{worker}"


def session_key(secret_hash: bytes) -> Key:
    return f"session#{secret_hash.hex()}", "session"


def token_sk(token: TokenId) -> str:
    return f"token#{token}"
