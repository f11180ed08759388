// Ops allowed in a rule's graph, and the effect of each on padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rivulet {

// What the elements between tensors of a flat vector are: zeros; something that zero times is zero; anything. A number
// is finite.
enum class Padding : uint8_t { kZero, kFinite, kAny };

struct RuleOp {
  std::string_view name;
  Padding (*padding)(std::span<const Padding> inputs);
};
// Null: no rule is made of it. Those that have a meaning of their own (variables, constants, targets) are not here.
const RuleOp* FindRuleOp(std::string_view name);
std::string RuleOpNames();  // "Abs, AddV2, …"

}  // namespace rivulet
