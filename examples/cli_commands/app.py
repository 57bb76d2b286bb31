"""The commands of commands.toml, declared in Python, and a job of each."""

import sys
from pathlib import Path

from leasehold import Leasehold

app = Leasehold()

ZOLTAG = Path(__file__).resolve().with_name("zoltag")
PROVIDER = "0b9c0a5e-5f0e-4c8e-9d7c-3a1f5d2b7e60"

sync_dropbox = app.command(
    "sync-dropbox",
    description="Sync provider updates for tenant",
    argv=[
        *(ZOLTAG, "sync-dropbox", "--tenant-id", "{tenant}", "--provider-id", "{provider_id}"),
        ["--path-prefix={path_prefix}"],
        ["--full", "{full?}"],
    ],
    schema={
        "type": "object",
        "properties": {
            "provider_id": {"type": "string", "format": "uuid"},
            "path_prefix": {"type": "string"},
            "full": {"type": "boolean"},
        },
        "required": ["provider_id"],
        "additionalProperties": False,
    },
    timeout="1h",
    max_attempts=3,
    fail_on=[2],
)
recompute_trained_tags = app.command(
    "recompute-trained-tags",
    argv=[ZOLTAG, "recompute-trained-tags", "--tenant-id", "{tenant}", ["--model={model}"], ["--tag={tags}"]],
    schema={
        "type": "object",
        "properties": {"model": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": False,
    },
)
recompute_zeroshot_tags = app.command(
    "recompute-zeroshot-tags",
    argv=[ZOLTAG, "recompute-zeroshot-tags", "--tenant-id", "{tenant}", ["--model={model}"]],
    schema={
        "type": "object",
        "properties": {"model": {"enum": ["siglip", "clip"]}},
        "additionalProperties": False,
    },
)
train_keyword_models = app.command(
    "train-keyword-models", argv=[ZOLTAG, "train-keyword-models", "--tenant-id", "{tenant}"], timeout="6h"
)


def main(tenant: str) -> None:
    owner = app.tenant(tenant)
    print(owner.enqueue(sync_dropbox, provider_id=PROVIDER, path_prefix="/photos; rm -rf /").id)
    print(owner.enqueue(recompute_trained_tags, model="siglip", tags=["cat", "--help"]).id)
    print(owner.enqueue(recompute_zeroshot_tags).id)
    print(owner.enqueue(train_keyword_models).id)


if __name__ == "__main__":
    main(*sys.argv[1:])
