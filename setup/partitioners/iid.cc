// Shuffles and deals.
#include "setup/partitioners/partitioner.h"
#include "setup/partitioners/sizes.h"

namespace rivulet {
namespace {

// The shuffled indices are the arena itself: it is cut in place.
StatusOr<Shares> PartitionIid(const PartitionRequest& request) {
  Draws draws = PartitionDraws(request.seed, PartitionOp::kDealExamples);
  std::vector<uint32_t> order = Permutation(draws, static_cast<uint32_t>(request.data.size()));
  RIVULET_ASSIGN_OR_RETURN(std::vector<uint64_t> ends, SizeEnds(request));
  return Shares::OfNumbered(std::move(ends), std::move(order));
}

RIVULET_PARTITIONER(iid_registration, {.name = "iid",
                                       .doc = "shuffles and deals",
                                       .settings = {SizesSetting()},
                                       .divide = PartitionIid,
                                       .chooses = ChoosesSizes()});

}  // namespace
}  // namespace rivulet
