#include "setup/held_out.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

class SomeExamples : public Dataset {
 public:
  SomeExamples(std::shared_ptr<const Dataset> all, std::vector<uint32_t> examples)
      : all_(std::move(all)), examples_(std::move(examples)) {}
  int64_t size() const override { return std::ssize(examples_); }
  Status Read(int64_t index, std::string& buffer) const override { return all_->Read(At(index), buffer); }
  std::string Where(int64_t index) const override { return all_->Where(At(index)); }

 private:
  int64_t At(int64_t index) const { return examples_[static_cast<size_t>(index)]; }
  const std::shared_ptr<const Dataset> all_;
  const std::vector<uint32_t> examples_;  // in order
};

}  // namespace

StatusOr<LearntAndHeldOut> HoldOut(const std::shared_ptr<const Dataset>& data, double fraction, uint64_t seed) {
  const int64_t size = data->size();
  const auto held = std::max<int64_t>(1, std::llround(fraction * static_cast<double>(size)));
  if (size > std::numeric_limits<uint32_t>::max() || held >= size)
    return InvalidArgument("data.validation_fraction = {} holds out {} of {} examples, and some are to be learnt from",
                           fraction, held, size);
  Draws draws = PartitionDraws(seed, PartitionOp::kHoldOut);
  const std::vector<uint32_t> order = Permutation(draws, static_cast<uint32_t>(size));
  std::vector<uint32_t> held_out(order.begin(), order.begin() + held), learnt(order.begin() + held, order.end());
  std::sort(held_out.begin(), held_out.end());
  std::sort(learnt.begin(), learnt.end());
  return LearntAndHeldOut(std::make_shared<const SomeExamples>(data, std::move(learnt)),
                          std::make_shared<const SomeExamples>(data, std::move(held_out)));
}

}  // namespace rivulet
