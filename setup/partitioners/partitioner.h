// What the ways of dividing a data set have in common, and their names for setup/partition.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"
#include "setup/shares.h"

namespace rivulet {

// Already checked: 1 example at least, as many as clients, and no more than 2^32 - 1.
struct PartitionRequest {
  const Dataset& data;
  const PartitionConfig& config;
  const std::string& label_feature;
  uint64_t seed;
};

StatusOr<Shares> PartitionIid(const PartitionRequest& request);             // iid.cc
StatusOr<Shares> PartitionShards(const PartitionRequest& request);          // shards.cc
StatusOr<Shares> PartitionDirichlet(const PartitionRequest& request);       // dirichlet.cc
StatusOr<Shares> PartitionLabelDirichlet(const PartitionRequest& request);  // label_dirichlet.cc
StatusOr<Shares> PartitionPathological(const PartitionRequest& request);    // pathological.cc
StatusOr<Shares> PartitionDistribution(const PartitionRequest& request);    // distribution.cc
StatusOr<Shares> PartitionContinuous(const PartitionRequest& request);      // continuous.cc
StatusOr<Shares> PartitionByKey(const PartitionRequest& request);           // by_key.cc

// One stream, split by what is drawn, so that no kind depends on how many draws another needs.
enum class PartitionOp : uint32_t {
  kDealExamples = 0,
  kDealShards = 1,
  kProportions = 2,
  kClassOrder = 3,
  kPick = 4,
  kSizes = 5,
  kClasses = 6,
  kScores = 7,
  kHoldOut = 8,
  kLabelShares = 1024,  // and on, one for each label and attempt
};
Draws PartitionDraws(uint64_t seed, PartitionOp op, uint32_t further = 0);

// Where part `i` of `parts` begins when `n` things are cut as evenly as whole numbers allow.
int64_t EvenCut(int64_t n, int64_t i, int64_t parts);

// The label of every example. Errors name file, record and byte.
StatusOr<std::vector<int64_t>> ReadLabels(const Dataset& data, const std::string& feature);
// The examples of each label, in order of the labels, each pile shuffled.
std::vector<std::vector<uint32_t>> LabelPiles(const std::vector<int64_t>& labels, uint64_t seed);

// The logarithm of a Gamma(shape, 1) variate (Marsaglia and Tsang 2000). Logarithms, because for a small shape the
// variates themselves are below the smallest double: Gamma(a) = Gamma(a + 1) × U^(1/a).
double LogGamma(double shape, Draws& draws);

}  // namespace rivulet
