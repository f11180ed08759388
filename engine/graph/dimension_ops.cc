#include "engine/graph/dimension_ops.h"

#include <limits>

namespace rivulet {
namespace {

using Value = std::optional<Dimension>;

Value Truth(bool value) { return Dimension(value ? 1 : 0); }

Value Quotient(const Dimension& a, const Dimension& b, bool down) {
  if (down || !a.IsNumber() || !b.IsNumber()) {
    // Rounding towards zero equals rounding down if nothing is negative.
    const bool positive = a.Least().value_or(-1) >= 0 && b.Least().value_or(-1) > 0;
    const Value whole = a.Over(b);
    if (down || positive) return whole;
    return whole && whole->Times(b) == Value(a) ? whole : std::nullopt;
  }
  if (b.number() == 0 || (b.number() == -1 && a.number() == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return Dimension(a.number() / b.number());
}

}  // namespace

Difference Between(const Dimension& a, const Dimension& b) {
  const Value difference = a.Minus(b);
  return difference ? Difference{difference->Least(), difference->Most()} : Difference{};
}

std::optional<Dimension> Decided(bool yes, bool no) { return yes ? Truth(true) : no ? Truth(false) : std::nullopt; }

std::optional<Dimension> Combined(std::string_view op, const Dimension& a, const Dimension& b) {
  if (op == "Add" || op == "AddV2") return a.Plus(b);
  if (op == "Sub") return a.Minus(b);
  if (op == "Mul") return a.Times(b);
  if (op == "FloorDiv") return Quotient(a, b, true);
  if (op == "Div" || op == "TruncateDiv") return Quotient(a, b, false);
  if (op == "FloorMod" || op == "Mod" || op == "TruncateMod") {
    const Value whole = Quotient(a, b, op != "TruncateMod" && op != "Mod");
    const Value taken = whole ? whole->Times(b) : std::nullopt;
    return taken ? a.Minus(*taken) : std::nullopt;
  }
  if (op == "LogicalAnd" || op == "LogicalOr") {
    const bool absorbing = op == "LogicalOr";
    for (const Dimension* each : {&a, &b})
      if (each->IsNumber() && (each->number() != 0) == absorbing) return Truth(absorbing);
    return a.IsNumber() && b.IsNumber() ? Truth(!absorbing) : std::nullopt;
  }
  const Difference d = Between(a, b);
  const bool equal = d.AtLeast(0) && d.AtMost(0), differ = d.AtLeast(1) || d.AtMost(-1);
  if (op == "Maximum") return d.AtLeast(0) ? Value(a) : d.AtMost(0) ? Value(b) : std::nullopt;
  if (op == "Minimum") return d.AtMost(0) ? Value(a) : d.AtLeast(0) ? Value(b) : std::nullopt;
  if (op == "Equal") return Decided(equal, differ);
  if (op == "NotEqual") return Decided(differ, equal);
  if (op == "Less") return Decided(d.AtMost(-1), d.AtLeast(0));
  if (op == "LessEqual") return Decided(d.AtMost(0), d.AtLeast(1));
  if (op == "Greater") return Decided(d.AtLeast(1), d.AtMost(0));
  if (op == "GreaterEqual") return Decided(d.AtLeast(0), d.AtMost(-1));
  return std::nullopt;
}

}  // namespace rivulet
