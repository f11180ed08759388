// A run partitioned into parts: sections of the graph that become programs, and the asynchronous ops between them.
//
// The set of asynchronous ops that a node depends on, and its device, determine its part. So all nodes of a part become
// ready together, and a part never waits for an input that only some of its nodes need. Constants and values that
// follow from shapes alone are computed in every part that uses them, so that they are still known when its program is
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

// What one program computes. Its graph is self-contained: what comes from outside is a Placeholder.
struct PlanPart {
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> feeds, fetches, targets;  // of `graph`
  std::vector<int> inputs, outputs;                  // values, as many as feeds and fetches
  std::vector<VariableUse> variables;
  std::string device;
  bool nothing = false;  // only joins control edges: there is no program
};

struct PlanAsync {
  const Node* node = nullptr;
  const AsyncFn* run = nullptr;  // nullptr: a cut call, or a handle that is a target, whose resource is made
  std::shared_ptr<const CutCall> call;
  std::vector<int> inputs;  // values of the inputs that are no resources
  std::vector<const Node*> handles;
  std::vector<int> outputs;  // a value per output, or -1 where nobody wants it
};

struct PlanStep {
  enum class Kind { kPart, kAsync, kFeed };
  Kind kind = Kind::kPart;
  int index = 0;            // in parts, asyncs or feeds
  int waits = 0;            // for so many steps
  std::vector<int> before;  // steps that wait for this one
};

struct RunPlan {
  std::shared_ptr<const Graph> graph;
  std::vector<PlanPart> parts;
  std::vector<PlanAsync> asyncs;
  std::vector<PlanStep> steps;  // each after those that it waits for
  int num_values = 0;
  std::vector<int> feeds, fetches;     // values, in the order of the run's
  std::vector<TensorSpec> feed_specs;  // what the graph says of them
  std::vector<int> uses;               // of each value, by steps and fetches
  // One part that is the graph itself: its inputs are the run's feeds, its outputs the fetches.
  bool whole = false;
};

// What a plan is made for. `feeds_come_later`: every feed is a step of its own, which the run may wait for.
struct RunNames {
  std::vector<std::string> feeds, fetches, targets;
  bool feeds_come_later = false;
  // Every node has a device, and edges between devices go through _Send and _Recv: parts are of one device.
  bool placed = false;
};

// NOT_FOUND: a name the graph lacks (names the nearest). INVALID_ARGUMENT: nothing to run, one tensor fed twice, a
// fetch that is a handle. UNIMPLEMENTED: an op that only a program can run has a handle that is no variable's.
// RESOURCE_EXHAUSTED: more than 4,096 asynchronous ops. The plan keeps `graph`.
StatusOr<std::shared_ptr<const RunPlan>> PlanRun(std::shared_ptr<const Graph> graph, const RunNames& names);

}  // namespace rivulet
