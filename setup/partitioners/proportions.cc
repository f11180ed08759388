#include "setup/partitioners/proportions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/math.h"

namespace rivulet {

Proportions::Proportions(int64_t clients, const Draws& draws, LogWeight log_weight)
    : clients_(clients), draws_(draws), log_weight_(std::move(log_weight)) {
  largest_ = -std::numeric_limits<double>::infinity();
  Draws first = draws_, second = draws_;
  for (int64_t client = 0; client < clients_; ++client) largest_ = std::max(largest_, log_weight_(client, first));
  if (!std::isfinite(largest_)) return;
  for (int64_t client = 0; client < clients_; ++client) total_ += math::Exp(log_weight_(client, second) - largest_);
}

void Proportions::Cut(uint64_t n, const std::function<void(int64_t, uint64_t, uint64_t)>& visit) const {
  Draws draws = draws_;
  double sum = 0;
  uint64_t begin = 0;
  for (int64_t client = 0; client < clients_; ++client) {
    const double weight = any() ? math::Exp(log_weight_(client, draws) - largest_) : 0;
    sum += weight;
    // Rounded, not truncated, so that a proportion that is whole except for its last bit stays whole.
    const double share = any() ? std::floor(static_cast<double>(n) * (sum / total_) + 0.5) : 0;
    const uint64_t end = client + 1 == clients_ ? n : std::min(n, static_cast<uint64_t>(share));
    visit(client, begin, end);
    begin = end;
  }
}

}  // namespace rivulet
