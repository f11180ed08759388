// Served names by the rows of a history's pointers: labels with their targets, steps back, and the targets whose files
// must be kept. Pure functions over rows; no file, no lock.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/history/pointers.h"
#include "engine/base/status.h"

namespace rivulet {

// The label for requests without a version or label, and the one that gets a share of these.
inline constexpr char kStableLabel[] = "stable";
inline constexpr char kCanaryLabel[] = "canary";

// One version of a name.
struct PointedVersion {
  int64_t version = 0;
  std::string run_id;
  int64_t round = 0;
  std::string digest, plan_digest;
  bool operator==(const PointedVersion&) const = default;
};

struct PointedLabel {
  PointedVersion target;
  double share = 0;  // percent
  int64_t rows = 0;  // number of rows of the label: if it differs, the label was pointed again, even to the same target
};

struct PointedName {
  std::map<std::string, PointedLabel> labels;
};

// The newest row of each name and label, by name.
std::map<std::string, PointedName> NamesOf(const std::vector<PointerRow>& rows);

// The row that moves `label` of `name` back to its previous target; each step back goes one further. NOT_FOUND: no such
// name or label. FAILED_PRECONDITION: there is no previous target.
StatusOr<PointerRow> StepBack(const std::vector<PointerRow>& rows, const std::string& name, const std::string& label);

// The newest two targets of each label of each name.
std::vector<PointedVersion> KeptTargets(const std::vector<PointerRow>& rows);

// "NAME" or "NAME=LABEL" of a command. INVALID_ARGUMENT: a name or label that is empty, longer than 128 characters, or
// has others than letters, digits, '.', '_' and '-'; or a label that is a number, as versions are.
Status CheckServedName(std::string_view name);
Status CheckLabel(std::string_view label);

}  // namespace rivulet
