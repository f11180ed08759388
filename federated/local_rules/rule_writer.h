// Copies a checked rule's nodes into a pass's graph for a known layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "federated/local_rules/rule_ops.h"
#include "federated/plan/flat_scope.h"

namespace rivulet {

// Writer for one of a pass's graphs. All arguments must outlive it; errors are kept in the scope.
class RuleWriter {
 public:
  // `slots` maps the rule's memory to flat variables: "memory/m" → "slots/0".
  RuleWriter(const Graph& rule, const std::map<std::string, double>& numbers,
             const std::map<std::string, std::string>& slots, FlatScope& f);

  // From now on, `grads` includes the gradient of this number, an output of the rule, by params.
  void AddToLoss(const Node& number);
  // The vector of a rule's output, with zero padding.
  Output Vector(const Node& vector);
  // `grads` as the rule reads it, including AddToLoss.
  Output Gradients();
  // Writes the assignments that the target depends on.
  void Assign(const Node& target);

 private:
  struct Written {
    Output output;
    Padding padding = Padding::kFinite;
  };
  void Write(Node* target);
  Written Make(const Node& node);
  Written Read(const Node& node);
  std::string Flat(const Node& handle) const;
  // Sets the padding to zero.
  Output Clean(const Written& written);
  Output Mask();

  const Graph& rule_;
  const std::map<std::string, double>& numbers_;
  const std::map<std::string, std::string>& slots_;
  FlatScope& f_;
  std::map<const Node*, Written> written_;
  std::map<std::string, Output> reads_;  // by flat
  Output mask_;
};

}  // namespace rivulet
