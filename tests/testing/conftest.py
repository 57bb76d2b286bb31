"""Tests of the room that users' tests stand in; most use it as those would, some run a pytest of their own."""

import pytest
from tests.testing import shop

from leasehold import Leasehold


@pytest.fixture
def leasehold_app() -> Leasehold:
    return shop.app
