// A user-defined local rule from a file: a graph over the flat variables of a pass that does not refer to any model
// yet. Its variables have the names of rule_names.h. Such graphs are made from text (rule_graph.h), or another program
// writes the GraphDef. The rule is checked when it is opened. Given a model's layout and the values of its settings, it
// becomes nodes of a plan's graphs, so that clients need no knowledge of it. Thread-safe.
//
// The padding between tensors is zero in every flat vector and must stay zero. A rule's arithmetic may not preserve it
// (grad + 1, exp(grad), 0 / 0). Assigned, summed and optimised values are therefore zeroed there.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "federated/plan/flat_scope.h"

namespace rivulet {

class OwnRule {
 public:
  // Reads bytes from outside. DATA_LOSS, INVALID_ARGUMENT as ParseGraph; INVALID_ARGUMENT: an op that no rule is made
  // of, a constant that is no number, a variable that a rule has not or may not write there, an output of another type,
  // names beyond what a plan may have.
  static StatusOr<OwnRule> Open(std::string_view graph_def);

  // Reads a file of that name: text (rule_graph.h), or the graph that `rivulet graph build` makes of it. As Open;
  // errors begin with the name, of text with FILE:LINE:COLUMN.
  static StatusOr<OwnRule> OfFile(std::string_view bytes, std::string_view path);

  // With their defaults.
  const std::map<std::string, double>& settings() const { return settings_; }
  // NAME of the flat vectors that it has or wants, in byte order: "memory/NAME", the plan's slots of these numbers;
  // "state/NAME"; "broadcast/NAME", which it reads; "update/NAME", which it writes.
  const std::vector<std::string>& memory() const { return memory_; }
  const std::vector<std::string>& state() const { return state_; }
  const std::vector<std::string>& broadcast() const { return broadcast_; }
  const std::vector<std::string>& update() const { return update_; }
  bool reads_base() const { return reads_base_; }
  bool reads_learning_rate() const;
  bool ends() const;  // whether it does something when the last step is done
  const Graph& graph() const { return graph_; }

  // Adds to a pass's step what the rule makes of it, and gives what the optimiser takes for the gradient. `numbers` has
  // every setting, and "learning_rate" where that is read. What is wrong sticks to the scope.
  Output Gradient(FlatScope& f, const std::map<std::string, double>& numbers) const;
  // Adds what is done after the last step.
  void AtEnd(FlatScope& f, const std::map<std::string, double>& numbers) const;

 private:
  OwnRule() = default;
  Status Check();
  Status CheckNode(const Node& node, bool assigned);
  Status CheckVariable(const Node& node, bool assigned);
  Status CheckTargets() const;

  Graph graph_;
  std::map<std::string, double> settings_;
  std::vector<std::string> memory_, state_, broadcast_, update_;
  bool reads_base_ = false;
};

// What the rule is, for eyes: "setting mu = 0.1", a line each.
std::string Describe(const OwnRule& rule);

}  // namespace rivulet
