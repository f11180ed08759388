// Ops allowed in a rule's graph, and the effect of each on padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rivulet {

// Possible values of the padding between tensors of a flat vector: zeros; finite values, whose product with zero is
// zero; any values. Numbers count as finite.
enum class Padding : uint8_t { kZero, kFinite, kAny };

struct RuleOp {
  std::string_view name;
  Padding (*padding)(std::span<const Padding> inputs);
};
// Null: rules may not use the op. Ops with special handling (variables, constants, targets) are not listed.
const RuleOp* FindRuleOp(std::string_view name);
std::string RuleOpNames();  // "Abs, AddV2, …"

}  // namespace rivulet
