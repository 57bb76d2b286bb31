#!/bin/sh
# Runs the neutral suite and the engine's own tests against a real DynamoDB, or another emulator. Each test makes a table
# and deletes it. The rights of the account must allow CreateTable and DeleteTable for leasehold-test-*.
#
#   tools/suite_on_dynamodb.sh 'dynamodb://leasehold?region=eu-west-1' -n 32
set -eu
if [ $# -eq 0 ]; then
    echo "usage: $0 URL [OPTION OF PYTEST …]" >&2
    exit 2
fi
LEASEHOLD_TEST_DYNAMODB_URL=$1
export LEASEHOLD_TEST_DYNAMODB_URL
shift
cd "$(dirname "$0")/.."
exec .venv/bin/pytest tests/store tests/dynamodb -k dynamodb -m "not faults" --timeout 600 "$@"
