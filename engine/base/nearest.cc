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

// As names are compared: without regard to case, and '-' as good as '_'.
std::string Folded(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  return folded;
}

// How many characters must be put in, left out, replaced or swapped with their neighbour (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({row[j + 1] + 1, next[j] + 1, row[j] + (a[i] != b[j])});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

}  // namespace

// A third of the name may be wrong. Beyond that a suggestion is more often misleading than a help.
std::string Nearest(std::string_view unknown, std::span<const std::string> known) {
  std::string_view best;
  size_t best_distance = std::string::npos;
  if (unknown.size() > kLongest) return "";
  const std::string folded = Folded(unknown);
  for (const std::string& name : known.first(std::min(known.size(), kMostCompared))) {
    const size_t shorter = std::min(unknown.size(), name.size());
    const size_t near = shorter <= 1 ? 0 : std::max<size_t>(1, shorter / 4);
    if (std::max(unknown.size(), name.size()) - shorter > near) continue;
    const size_t distance = EditDistance(folded, Folded(name));
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
