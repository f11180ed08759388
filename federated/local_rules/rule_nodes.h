// Nodes of a parsed rule, by operation: numbers are float64 among themselves and float32 combined with a vector.
// Operations have the bits of the operations of the same name in FlatScope (federated/plan/flat_scope.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

// Value of an expression. A truth value is the result of a comparison, which only where() accepts.
struct RuleValue {
  Output output;
  bool vector = false, truth = false;
};

class RuleNodes {
 public:
  RuleNodes() : scope_(graph_) {}

  RuleValue Number(double value) const;
  RuleValue Setting(std::string_view name, double value) const;
  RuleValue Rate();                           // learning_rate
  RuleValue Vector(const std::string& flat);  // a flat variable, before any assignment
  RuleValue Scalar(const std::string& flat);  // "round" or "steps", before any assignment
  RuleValue Each(std::string_view op, const RuleValue& x) const;
  RuleValue Both(std::string_view op, const RuleValue& x, const RuleValue& y) const;
  RuleValue Product(const RuleValue& x, const RuleValue& y) const;
  RuleValue Quotient(const RuleValue& x, const RuleValue& y) const;
  RuleValue Where(const RuleValue& truth, const RuleValue& x, const RuleValue& y) const;
  RuleValue Sum(const RuleValue& x) const;

  // Assigns the vector and makes the target of the step, or of the end, depend on it.
  void Assign(const std::string& flat, const RuleValue& value, bool at_end);
  bool assigns() const { return !assigned_[0].empty() || !assigned_[1].empty(); }
  // Returns the graph with these outputs, if they are set, and its targets. The object is empty afterwards.
  StatusOr<Graph> Finish(const RuleValue& gradient, const RuleValue& loss) &&;

 private:
  Output Beside(const RuleValue& value, bool vector) const;
  Output Handle(const std::string& flat, bool vector);
  Output Read(const std::string& flat, bool vector);

  Graph graph_;
  const Scope scope_;
  std::map<std::string, Output> handles_, reads_;  // by flat
  Output rate_;
  std::vector<Node*> assigned_[2];
};

// A function of the rule language.
struct RuleFunction {
  std::string_view name, call, doc;  // "abs", "abs(x)", description of the result
  int arguments = 1;
  bool of_truth = false;    // the first argument is a comparison
  bool of_vectors = false;  // all arguments are vectors
  RuleValue (*make)(RuleNodes& nodes, std::span<const RuleValue> arguments) = nullptr;
};
std::span<const RuleFunction> RuleFunctions();  // sorted by name

}  // namespace rivulet
