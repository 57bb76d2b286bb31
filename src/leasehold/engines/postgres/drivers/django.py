"""Django's connections."""

from collections.abc import Sequence

from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.drivers.base import Caller, not_postgres


class DjangoCaller(Caller):
    description = "a Django connection"
    blocking = True
    begin = "with transaction.atomic(): …"

    def commits_at_once(self) -> bool:
        if self._passed.vendor != "postgresql":
            raise not_postgres(f"a Django connection to {self._passed.vendor}")
        return bool(self._passed.get_autocommit()) and not self._passed.in_atomic_block

    def _fetch(self, call: CallerStatement) -> Sequence[Row]:
        with self._passed.cursor() as cursor:
            cursor.execute(call.text_with_percent, call.arguments)
            rows: Sequence[Row] = cursor.fetchall()
        return rows
