#include "engine/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace rivulet {
namespace {

// Names may come from outside; a suggestion is not worth more than this.
constexpr size_t kLongest = 256;
constexpr size_t kMostCompared = 10'000;

// Levenshtein distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

// A third of the name may be wrong. Beyond that a suggestion is more often misleading than a help.
std::string Nearest(std::string_view unknown, std::span<const std::string> known) {
  std::string_view best;
  size_t best_distance = std::string::npos;
  if (unknown.size() > kLongest) return "";
  for (const std::string& name : known.first(std::min(known.size(), kMostCompared))) {
    const size_t near = std::max(unknown.size(), name.size()) / 3 + 1;
    if (std::max(unknown.size(), name.size()) - std::min(unknown.size(), name.size()) > near) continue;
    const size_t distance = EditDistance(unknown, name);
    if (distance <= near && distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return std::string(best);
}

std::string DidYouMean(std::string_view unknown, std::span<const std::string> known) {
  const std::string nearest = Nearest(unknown, known);
  return nearest.empty() ? std::string() : fmt::format(" Did you mean '{}'?", nearest);
}

}  // namespace rivulet
