#include "setup/held_out.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "setup/partitioners/partitioner.h"
#include "setup/some_examples.h"

namespace rivulet {
StatusOr<LearntAndHeldOut> HoldOut(const std::shared_ptr<const Dataset>& data, double fraction, uint64_t seed) {
  const int64_t size = data->size();
  const auto held = std::max<int64_t>(1, std::llround(fraction * static_cast<double>(size)));
  if (size > std::numeric_limits<uint32_t>::max() || held >= size)
    return InvalidArgument(
        "data.validation_fraction = {} holds out {} of {} examples, and some must be left for training", fraction, held,
        size);
  Draws draws = PartitionDraws(seed, PartitionOp::kHoldOut);
  const std::vector<uint32_t> order = Permutation(draws, static_cast<uint32_t>(size));
  std::vector<uint32_t> held_out(order.begin(), order.begin() + held), learnt(order.begin() + held, order.end());
  std::sort(held_out.begin(), held_out.end());
  std::sort(learnt.begin(), learnt.end());
  return LearntAndHeldOut(std::make_shared<const SomeExamples>(data, std::move(learnt)),
                          std::make_shared<const SomeExamples>(data, std::move(held_out)));
}

}  // namespace rivulet
