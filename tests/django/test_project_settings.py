"""Where a Django project's jobs are: its alias as a URL."""

from typing import Any

import pytest

from leasehold.django.project_settings import url_of
from leasehold.engines import engine_for
from leasehold.errors import InvalidInput

POSTGRES = "django.db.backends.postgresql"


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        ({"NAME": "shop", "USER": "ann"}, "postgresql://ann@/shop"),
        (
            {"NAME": "shop", "USER": "ann", "PASSWORD": "a/b:c@d", "HOST": "db", "PORT": 5433},
            "postgresql://ann:a%2Fb%3Ac%40d@db:5433/shop",
        ),
        ({"NAME": "my shop", "HOST": "::1", "PORT": "5432"}, "postgresql://[::1]:5432/my%20shop"),
        ({"NAME": "shop", "HOST": "/run/pg", "PORT": "5433"}, "postgresql:///shop?host=%2Frun%2Fpg&port=5433"),
        ({"NAME": "shop", "PORT": "5433"}, "postgresql:///shop?port=5433"),
        (
            {"NAME": "shop", "HOST": "db", "OPTIONS": {"sslmode": "require", "pool": True}},
            "postgresql://db/shop?sslmode=require",
        ),
    ],
)
def test_an_alias_is_a_url_with_what_we_can_use_of_it(database: dict[str, Any], url: str) -> None:
    assert url_of("default", {"ENGINE": POSTGRES, **database}) == url


def test_an_alias_that_is_no_postgres_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"DATABASES\['default'\] has the engine django.db.backends.sqlite3"):
        url_of("default", {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop"})


@pytest.mark.parametrize(
    ("url", "moved"),
    [
        (
            "postgresql://ann:a%2Fb@db:5433/shop?sslmode=require",
            "postgresql://ann:a%2Fb@db:5433/test%20shop?sslmode=require",
        ),
        ("postgresql:///shop?host=/run/pg", "postgresql:///test%20shop?host=/run/pg"),
        ("postgresql://db", "postgresql://db/test%20shop"),
    ],
)
def test_a_url_keeps_all_but_its_database(url: str, moved: str) -> None:
    assert engine_for(url).url_of("test shop") == moved
