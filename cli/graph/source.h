// Graph argument of `rivulet graph`: the graph of a preset, a scenario or a file, and the signature of its program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

struct GraphSourceOptions {
  std::string what;                  // FILE.pb, FILE.pbtxt, SCENARIO.toml or a preset's name
  std::optional<int64_t> batch;      // the scenario's, or 10
  bool training = false;             // with gradients and SGD; for a scenario: a client's step
  std::string loss = "loss";         // of a file, for `training`
  std::vector<std::string> fetches;  // of a file; empty: every output that no node uses
  bool only_look = false;            // only its nodes are needed: variables of a file may have open shapes
};

struct GraphSource {
  std::string title;  // "mnist_cnn, training step, batch 10"
  Graph graph;
  Signature signature;
  KernelPolicy kernels;    // from the scenario
  std::string init;        // node that initialises variables; "" if there is none
  int64_t parameters = 0;  // elements of trainable and shared variables
};

// A usage error: a missing preset, file or tensor. INVALID_ARGUMENT: a placeholder with a shape that the batch does not
// determine. Others as ParseGraph, Scenario::Load and ComputeGradients.
StatusOr<GraphSource> LoadGraphSource(const GraphSourceOptions& options);

}  // namespace rivulet
