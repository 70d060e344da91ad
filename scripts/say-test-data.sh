#!/bin/bash
# Says so, loudly, when tests were skipped for want of MILLRACE_TEST_DATA, and how many.
#
#   scripts/say-test-data.sh JUNIT.xml
set -euo pipefail
[ -z "${MILLRACE_TEST_DATA:-}" ] || exit 0
skipped=$(grep -c '^MILLRACE_TEST_DATA is not set' "$1" || true)
echo "*** MILLRACE_TEST_DATA IS NOT SET: $skipped of the skipped cases are those over photographs" \
  "and hostile JPEGs (CONTRIBUTING.md)"
