// Shuffled and dealt.
#include "setup/partitioners/partitioner.h"
#include "setup/partitioners/sizes.h"

namespace rivulet {
namespace {

// What is dealt is the arena: it is cut where it lies.
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
