// A run partitioned into parts: sections of the graph that become programs, and the asynchronous ops between them.
//
// The set of asynchronous ops that a node depends on, and its device, determine its part. So all nodes of a part become
// ready together, and a part never waits for an input that only some of its nodes need. Constants and values that
// depend on shapes alone are computed in every part that uses them, so that they are known when its program is
// compiled.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataflow/placement/run_graph.h"
#include "dataflow/resources/async_op.h"
#include "dataflow/session/cut_call.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/variable_uses.h"

namespace rivulet {

// The computation of one program. Its graph is self-contained: external inputs are Placeholders.
struct PlanPart {
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> feeds, fetches, targets;  // of `graph`
  std::vector<int> inputs, outputs;                  // values, as many as feeds and fetches
  std::vector<VariableUse> variables;
  std::string device;
  bool nothing = false;  // true: only joins control edges, without a program
};

struct PlanAsync {
  const Node* node = nullptr;
  const AsyncFn* run = nullptr;  // nullptr: a cut call, or a target handle whose resource is created
  std::shared_ptr<const CutCall> call;
  std::vector<int> inputs;  // values of the inputs that are not resources
  std::vector<const Node*> handles;
  std::vector<int> outputs;  // a value per output, or -1 if unused
};

struct PlanStep {
  enum class Kind { kPart, kAsync, kFeed };
  Kind kind = Kind::kPart;
  int index = 0;            // index in parts, asyncs or feeds
  int waits = 0;            // number of steps to wait for
  std::vector<int> before;  // steps that wait for this one
};

struct RunPlan {
  std::shared_ptr<const Graph> graph;
  std::vector<PlanPart> parts;
  std::vector<PlanAsync> asyncs;
  std::vector<PlanStep> steps;  // in topological order
  int num_values = 0;
  std::vector<int> feeds, fetches;     // values, in the order of the run's
  std::vector<TensorSpec> feed_specs;  // types and shapes in the graph
  std::vector<int> uses;               // uses of each value by steps and fetches
  // True: one part that is the whole graph; its inputs are the run's feeds, its outputs the fetches.
  bool whole = false;
};

// Input of planning. `feeds_come_later`: every feed is a separate step that may arrive during the run.
struct RunNames {
  std::vector<std::string> feeds, fetches, targets;
  bool feeds_come_later = false;
  // Every node has a device, and edges between devices go through _Send and _Recv: each part has one device.
  bool placed = false;
};

// NOT_FOUND: a name that the graph lacks (names the nearest). INVALID_ARGUMENT: nothing to run, a tensor fed twice, a
// fetched handle. UNIMPLEMENTED: an op that only a program can run has a handle that is not a variable.
// RESOURCE_EXHAUSTED: more than 4,096 asynchronous ops. The plan keeps `graph` alive.
StatusOr<std::shared_ptr<const RunPlan>> PlanRun(std::shared_ptr<const Graph> graph, const RunNames& names);

}  // namespace rivulet
