"""The pages that the frame links to. A new page is added to `SECTIONS`."""

from dataclasses import dataclass

from leasehold.model.access import Permission


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation. `path` is within a scope; a visitor without the permission does not see it.

    A `wide` page is about all tenants: people of one tenant do not see it, and others reach it from every scope.
    """

    name: str
    label: str
    path: str
    permission: Permission
    wide: bool = False


SECTIONS: tuple[Section, ...] = (
    Section("overview", "Overview", "", Permission.JOBS_READ),
    Section("jobs", "Jobs", "/jobs", Permission.JOBS_READ),
    Section("dead", "Dead letters", "/dead", Permission.JOBS_READ),
    Section("operations", "Operations", "/operations", Permission.JOBS_READ),
    Section("triggers", "Triggers", "/triggers", Permission.TRIGGERS_READ),
    Section("events", "Events", "/events", Permission.EVENTS_READ),
    Section("definitions", "Definitions", "/definitions", Permission.DEFINITIONS_READ),
    Section("usage", "Usage", "/usage", Permission.JOBS_READ),
    Section("audit", "Audit", "/audit", Permission.AUDIT_READ),
    Section("health", "Health", "/health", Permission.JOBS_READ),
    Section("workers", "Workers", "/workers", Permission.WORKERS_READ, wide=True),
    Section("tenants", "Tenants", "/tenants", Permission.TENANTS_READ, wide=True),
)
