#!/usr/bin/env bash
# Describes the wire's messages for clients written in Python: proto/ as the descriptor set
# python/rivulet/_protocol.desc. Run it when a field changes that a client reads or writes; a test compares the two.
set -euo pipefail
cd "$(dirname "$0")/.."
protoc --proto_path=. --descriptor_set_out="${1:-python/rivulet/_protocol.desc}" \
  proto/rpc/coordinator.proto proto/federated/plan.proto
