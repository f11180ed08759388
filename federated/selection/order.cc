#include <unordered_set>

#include "federated/random/streams.h"
#include "federated/selection/selector.h"

namespace rivulet {
namespace {

class Uniform final : public Order {
 public:
  explicit Uniform(const CohortDraw& draw) : ranks_(UniformPermutation(draw)) {}

 private:
  std::optional<int64_t> Take() override { return ranks_.Next(); }

  LazyPermutation ranks_;
};

class Beginning final : public Order {
 public:
  Beginning(const CohortDraw& draw, std::vector<int64_t> first)
      : first_(std::move(first)), gone_(first_.begin(), first_.end()), others_(UniformPermutation(draw)) {}

 private:
  std::optional<int64_t> Take() override {
    if (next_ < first_.size()) return first_[next_++];
    std::optional<int64_t> rank = others_.Next();
    while (rank && gone_.contains(*rank)) rank = others_.Next();
    return rank;
  }

  const std::vector<int64_t> first_;
  const std::unordered_set<int64_t> gone_;
  size_t next_ = 0;
  LazyPermutation others_;
};

}  // namespace

// Streams of one number but different kinds are disjoint: draws of one kind never affect those of another.
Draws CohortDraw::Stream(uint32_t number) const {
  constexpr uint32_t kKinds = 8;
  return Draws(StreamFor(seed, "", Purpose::kSelect, static_cast<uint32_t>(round), static_cast<uint16_t>(attempt - 1)),
               number * kKinds + static_cast<uint32_t>(kind));
}

std::optional<int64_t> Order::Next() {
  const std::optional<int64_t> rank = Take();
  if (rank) ++given_;
  return rank;
}

LazyPermutation UniformPermutation(const CohortDraw& draw) { return LazyPermutation(draw.Stream(0), draw.members); }

std::unique_ptr<Order> UniformOrder(const CohortDraw& draw) { return std::make_unique<Uniform>(draw); }

std::unique_ptr<Order> OrderBeginning(const CohortDraw& draw, std::vector<int64_t> first) {
  return std::make_unique<Beginning>(draw, std::move(first));
}

}  // namespace rivulet
