// A partitioner of a data set among clients: its name, options and code, in one registered file. Helpers shared by
// several partitioners are here too.
//
//   RIVULET_PARTITIONER(shards_registration, {.name = "shards", .doc = "sorts …", .settings = {…}, .divide = …});
//
// The options are keys of [data.partition]; parsing, ranges, messages and docs/reference/scenario.md follow from them.
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/settings/setting_tables.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// Already checked: at least 1 example, as many examples as clients, and at most 2^32 - 1.
struct PartitionRequest {
  const Dataset& data;
  int64_t clients;             // 0: determined by the data, for a partitioner with the trait kCountsClients
  const Settings& settings;    // the partitioner's own options
  const SettingValues& given;  // the given options, for the pieces that its own ones choose
  const std::string& label_feature;
  uint64_t seed;
};

struct Partitioner {
  std::string name;
  std::string doc;  // completes "`name` …" in the reference: "shuffles and deals"
  std::vector<Setting> settings = {};
  StatusOr<Shares> (*divide)(const PartitionRequest& request) = nullptr;
  std::vector<std::string> files = {};  // settings that are paths
  std::map<std::string, std::string, std::less<>> chooses = {};
  std::vector<std::string> traits = {};
};

// INVALID_ARGUMENT lists the kinds and the nearest.
StatusOr<const Partitioner*> FindPartitioner(const std::string& name);

// Registers the table ("partitioner", name) too. A check fails if two have one name.
struct PartitionerRegistration {
  explicit PartitionerRegistration(Partitioner partitioner);
};
#define RIVULET_PARTITIONER(variable, ...) \
  [[maybe_unused]] static const ::rivulet::PartitionerRegistration variable(::rivulet::Partitioner __VA_ARGS__)

// The option "alpha" of partitioners that draw from a Dirichlet distribution.
Setting AlphaSetting();

// Substreams of one stream, by purpose, so that no kind depends on the number of another's draws.
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
  kLabelShares = 1024,  // and higher values, one for each label and attempt
};
Draws PartitionDraws(uint64_t seed, PartitionOp op, uint32_t further = 0);

// Where part `i` of `parts` begins if `n` things are divided as evenly as whole numbers allow.
int64_t EvenCut(int64_t n, int64_t i, int64_t parts);

// The label of every example. Errors name file, record and byte.
StatusOr<std::vector<int64_t>> ReadLabels(const Dataset& data, const std::string& feature);
// The examples of each label, in order of the labels, each pile shuffled.
std::vector<std::vector<uint32_t>> LabelPiles(const std::vector<int64_t>& labels, uint64_t seed);

// The logarithm of a Gamma(shape, 1) variate (Marsaglia and Tsang 2000). Logarithms, because for a small shape the
// variates themselves are below the smallest double: Gamma(a) = Gamma(a + 1) × U^(1/a).
double LogGamma(double shape, Draws& draws);

}  // namespace rivulet
