#!/usr/bin/env bash
# What we build on is what the record says: third_party/upstreams.toml against Cargo.lock and the installed bubblewrap.
# `--record` writes the crate versions of Cargo.lock into the record. CODESPACE_REQUIRE_LINUX_SANDBOX=1 makes a missing
# bubblewrap a failure; CODESPACE_TRY_BUBBLEWRAP=VERSION lets that one version through, for the run that tests it.
set -euo pipefail
exec python3 -B "$(dirname "${BASH_SOURCE[0]}")/lib/upstream_pin.py" "$@"
