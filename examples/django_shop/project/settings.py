"""A small shop. DATABASE_URL says where its Postgres is."""

import os
from urllib.parse import parse_qs, unquote, urlsplit

_url = urlsplit(os.environ["DATABASE_URL"])
_query = parse_qs(_url.query)

SECRET_KEY = "only for this example"
INSTALLED_APPS = ["leasehold.django", "shop"]
ROOT_URLCONF = "project.urls"
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.removeprefix("/"),
        "USER": unquote(_url.username or ""),
        "PASSWORD": unquote(_url.password or ""),
        "HOST": _url.hostname or _query.get("host", [""])[0],
        "PORT": str(_url.port or _query.get("port", [""])[0]),
    }
}
