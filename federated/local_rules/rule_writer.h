// Writes a checked rule's nodes into a pass's graph of a known layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "federated/local_rules/rule_ops.h"
#include "federated/plan/flat_scope.h"

namespace rivulet {

// For one of a pass's graphs. Everything must outlive it; errors stick to the scope.
class RuleWriter {
 public:
  // `slots` are the flats of the rule's memory: "memory/m" → "slots/0".
  RuleWriter(const Graph& rule, const std::map<std::string, double>& numbers,
             const std::map<std::string, std::string>& slots, FlatScope& f);

  // From here on what reads `grads` reads them with the gradient by params of this output of the rule, a number, added.
  void AddToLoss(const Node& number);
  // The vector that an output of the rule is, zero in the padding.
  Output Vector(const Node& vector);
  // `grads`, as the rule reads them.
  Output Gradients();
  // Carries out what the target waits for.
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
  // Zero in the padding.
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
