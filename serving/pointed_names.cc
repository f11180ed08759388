#include "serving/pointed_names.h"

#include <algorithm>
#include <utility>

#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

PointedVersion TargetOf(const PointerRow& row) {
  return {row.version, row.run_id, row.round, row.digest, row.plan_digest};
}

using Stacks = std::map<std::pair<std::string, std::string>, std::vector<const PointerRow*>>;

// The targets of each name and label, the present one last: a new row pushes a target, and a step back pops
// one.
Stacks StacksOf(const std::vector<PointerRow>& rows) {
  Stacks stacks;
  for (const PointerRow& row : rows) {
    auto& stack = stacks[{row.name, row.label}];
    if (row.rolled_back && stack.size() > 1) {
      stack.pop_back();
      stack.back() = &row;
    } else {
      stack.push_back(&row);
    }
  }
  return stacks;
}

Status CheckWord(std::string_view what, std::string_view word) {
  constexpr size_t kMost = 128;
  if (word.empty()) return InvalidArgument("a {} is empty; give it letters, digits, '.', '_' or '-'", what);
  if (word.size() > kMost)
    return InvalidArgument("the {} '{}' is longer than {} characters", what, Shortened(word), kMost);
  for (const char c : word) {
    const bool fits =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!fits)
      return InvalidArgument("the {} '{}' has other characters than letters, digits, '.', '_' and '-'", what,
                             Shortened(word));
  }
  return absl::OkStatus();
}

}  // namespace

std::map<std::string, PointedName> NamesOf(const std::vector<PointerRow>& rows) {
  std::map<std::string, PointedName> names;
  for (const PointerRow& row : rows) {
    PointedLabel& label = names[row.name].labels[row.label];
    label = {TargetOf(row), row.share, label.rows + 1};
  }
  return names;
}

StatusOr<PointerRow> StepBack(const std::vector<PointerRow>& rows, const std::string& name, const std::string& label) {
  const Stacks stacks = StacksOf(rows);
  const auto found = stacks.find({name, label});
  if (found == stacks.end()) {
    std::vector<std::string> names, labels;
    for (const auto& [key, stack] : stacks) {
      names.push_back(key.first);
      if (key.first == name) labels.push_back(key.second);
    }
    if (labels.empty()) return NotFound("no label of the name '{}' was set.{}", name, DidYouMean(name, names));
    return NotFound("the name '{}' has no label '{}'.{}", name, label, DidYouMean(label, labels));
  }
  const auto& stack = found->second;
  if (stack.size() < 2) {
    return FailedPrecondition(
        "the label '{}' of '{}' has had one target, round {} of run '{}'; there is none before to go back to", label,
        name, stack.back()->round, stack.back()->run_id);
  }
  PointerRow row = *stack[stack.size() - 2];
  row.rolled_back = true;
  return row;
}

std::vector<PointedVersion> KeptTargets(const std::vector<PointerRow>& rows) {
  std::vector<PointedVersion> kept;
  for (const auto& [key, stack] : StacksOf(rows)) {
    size_t targets = 0;
    for (auto row = stack.rbegin(); row != stack.rend() && targets < 2; ++row) {
      if (row != stack.rbegin() && TargetOf(**row) == TargetOf(**std::prev(row))) continue;  // only another share of it
      kept.push_back(TargetOf(**row));
      ++targets;
    }
  }
  return kept;
}

Status CheckServedName(std::string_view name) { return CheckWord("served name", name); }

Status CheckLabel(std::string_view label) {
  RIVULET_RETURN_IF_ERROR(CheckWord("label", label));
  if (label.find_first_not_of("0123456789") == label.npos)
    return InvalidArgument("the label '{}' is a number, as versions are; give it a letter", label);
  return absl::OkStatus();
}

}  // namespace rivulet
