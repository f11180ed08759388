// A user-defined local rule from a file: a graph over the flat variables of a pass that does not refer to any model
// yet. Its variables have the names in rule_names.h. The graph comes from text (rule_graph.h), or from another
// program's GraphDef. The rule is checked when it is opened. With a model's layout and the settings' values it is
// written into a plan's graphs, so clients need no knowledge of it. Thread-safe.
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
  // Opens untrusted bytes. DATA_LOSS, INVALID_ARGUMENT: as ParseGraph. INVALID_ARGUMENT: an op that rules may not use,
  // a constant that is not a number, a variable that rules lack or may not write there, an output of another type, a
  // name that plans do not allow.
  static StatusOr<OwnRule> Open(std::string_view graph_def);

  // Opens the contents of a file of that name: text (rule_graph.h), or a graph from `rivulet graph build`. As Open;
  // errors start with the name, for text with FILE:LINE:COLUMN.
  static StatusOr<OwnRule> OfFile(std::string_view bytes, std::string_view path);

  // Names of the settings, with their defaults.
  const std::map<std::string, double>& settings() const { return settings_; }
  // Names of the rule's flat vectors, in byte order: "memory/NAME", which become the plan's slots of these indices;
  // "state/NAME"; "broadcast/NAME", which it reads; "update/NAME", which it writes.
  const std::vector<std::string>& memory() const { return memory_; }
  const std::vector<std::string>& state() const { return state_; }
  const std::vector<std::string>& broadcast() const { return broadcast_; }
  const std::vector<std::string>& update() const { return update_; }
  bool reads_base() const { return reads_base_; }
  bool reads_learning_rate() const;
  bool ends() const;  // whether it has actions after the last step
  const Graph& graph() const { return graph_; }

  // Adds the rule to a pass's step and returns the gradient for the optimiser. `numbers` has every setting, and
  // "learning_rate" if the rule reads it. Errors are kept in the scope.
  Output Gradient(FlatScope& f, const std::map<std::string, double>& numbers) const;
  // Adds the actions after the last step.
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

// A description for users: "setting mu = 0.1" and so on, one line each.
std::string Describe(const OwnRule& rule);

}  // namespace rivulet
