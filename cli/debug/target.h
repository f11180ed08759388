// Target of `rivulet debug`: a client's task of a scenario, or a single graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/table.h"
#include "engine/compile/optimize.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

struct DebugTargetOptions {
  std::string what;               // SCENARIO.toml, FILE.pb, FILE.pbtxt or a preset's name
  std::vector<std::string> sets;  // of a scenario: KEY=VALUE
  std::string client;             // of a scenario; "": the first client
  std::optional<int64_t> round;   // of a scenario: starts from this round's model; default: the first
  std::optional<int64_t> batch;   // the scenario's, or 10
  bool training = false;          // of a graph: with gradients and SGD
  std::string loss = "loss";      // of a graph file
  std::vector<std::string> fetches;
  std::vector<std::string> feeds;  // of a graph: NAME=FILE.npy
  std::optional<int64_t> steps;    // of a graph; 1
  bool no_passes = false;          // every node is a separate call
};

struct DebugTarget {
  std::string title;  // "quickstart, client-00000, round 1"
  Fields facts;       // for `ri`: client, round, task …
  // The step before and after the passes.
  Graph graph;
  Signature signature;
  CompileOptions options;
  OptimizedGraph optimized;
  // Source lines of nodes that have none: the graph of a plan lost them.
  std::map<std::string, std::string, std::less<>> source_lines;
  std::function<std::string(const Program&)> phase_of;
  // Runs until the end and returns a summary: "12 steps, loss 0.31, update 3f2a…".
  std::function<StatusOr<std::string>(RunObserver* observer)> run;
};

// Usage errors and errors of files as LoadScenario and LoadGraphSource; NOT_FOUND: no such client (the nearest).
// With a round after the first, the rounds before it are simulated here and now.
StatusOr<std::unique_ptr<DebugTarget>> LoadDebugTarget(const DebugTargetOptions& options);

}  // namespace rivulet
