#include "federated/scenario/stop_condition.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace rivulet {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

bool StopCondition::Holds(double value) const {
  switch (is) {
    case Is::kBelow:
      return value < bound;
    case Is::kAtMost:
      return value <= bound;
    case Is::kAbove:
      return value > bound;
    case Is::kAtLeast:
      return value >= bound;
  }
  return false;
}

StatusOr<StopCondition> StopCondition::Parse(std::string_view text) {
  const auto wrong = [&] {
    return InvalidArgument(
        "run.stop is '{}'; write a metric, one of <, <=, > and >=, and a number, such as \"accuracy >= 0.99\"", text);
  };
  const size_t at = text.find_first_of("<>");
  if (at == text.npos) return wrong();
  StopCondition condition;
  condition.metric = Trimmed(text.substr(0, at));
  std::string_view bound = text.substr(at + 1);
  const bool equal = bound.starts_with('=');
  if (equal) bound.remove_prefix(1);
  bound = Trimmed(bound);
  if (text[at] == '<') {
    condition.is = equal ? Is::kAtMost : Is::kBelow;
  } else {
    condition.is = equal ? Is::kAtLeast : Is::kAbove;
  }
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/';
  };
  if (condition.metric.empty() || !std::ranges::all_of(condition.metric, plain)) return wrong();
  const auto [end, error] = std::from_chars(bound.data(), bound.data() + bound.size(), condition.bound);
  if (error != std::errc() || end != bound.data() + bound.size() || !std::isfinite(condition.bound)) return wrong();
  return condition;
}

}  // namespace rivulet
