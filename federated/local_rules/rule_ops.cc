#include "federated/local_rules/rule_ops.h"

#include <algorithm>
#include <vector>

#include "engine/base/join.h"

namespace rivulet {
namespace {

using Inputs = std::span<const Padding>;

Padding Worst(Inputs inputs) { return *std::ranges::max_element(inputs); }
Padding Anything(Inputs) { return Padding::kAny; }
Padding Product(Inputs inputs) {
  return Worst(inputs) == Padding::kAny ? Padding::kAny : *std::ranges::min_element(inputs);
}
// Roots of negative numbers are NaN.
Padding Root(Inputs inputs) { return inputs[0] == Padding::kZero ? Padding::kZero : Padding::kAny; }
Padding Exponential(Inputs inputs) { return inputs[0] == Padding::kZero ? Padding::kFinite : Padding::kAny; }
Padding Choice(Inputs inputs) { return Worst(inputs.subspan(1)); }
Padding Truth(Inputs) { return Padding::kFinite; }

constexpr RuleOp kOps[] = {
    {"Abs", Worst},      {"AddV2", Worst},        {"Cast", Worst},       {"Equal", Truth},     {"Exp", Exponential},
    {"Greater", Truth},  {"GreaterEqual", Truth}, {"Identity", Worst},   {"Less", Truth},      {"LessEqual", Truth},
    {"Log", Anything},   {"Maximum", Worst},      {"Minimum", Worst},    {"Mul", Product},     {"Neg", Worst},
    {"NotEqual", Truth}, {"Pow", Anything},       {"RealDiv", Anything}, {"SelectV2", Choice}, {"Sign", Worst},
    {"Sqrt", Root},      {"Square", Worst},       {"Sub", Worst},        {"Sum", Truth},       {"Tanh", Worst},
};

}  // namespace

const RuleOp* FindRuleOp(std::string_view name) {
  const auto found = std::ranges::find(kOps, name, &RuleOp::name);
  return found == std::end(kOps) ? nullptr : found;
}

std::string RuleOpNames() {
  std::vector<std::string_view> names;
  for (const RuleOp& op : kOps) names.push_back(op.name);
  return Join(names, ", ");
}

}  // namespace rivulet
