"""An app on this test's database."""

from collections.abc import Iterator

import pytest
from tests.app.bulk_calls import bound, enqueue_many  # noqa: F401

from leasehold import Leasehold


@pytest.fixture
def app(database_url: str) -> Iterator[Leasehold]:
    """Closed afterwards: an app that blocking calls opened keeps its connections until then."""
    created = Leasehold(database_url)
    yield created
    created.close()
