#include "setup/partitioners/partitioner.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/math.h"
#include "federated/random/streams.h"

namespace rivulet {

Setting AlphaSetting() {
  return WithExample(
      Float("alpha", 0.5, "Concentration of the Dirichlet distribution: small makes clients unlike, large alike.")
          .Above(0),
      "0.1");
}

Draws PartitionDraws(uint64_t seed, PartitionOp op, uint32_t further) {
  return Draws(StreamFor(seed, "", Purpose::kPartition), static_cast<uint32_t>(op) + further);
}

int64_t EvenCut(int64_t n, int64_t i, int64_t parts) { return n / parts * i + std::min(i, n % parts); }

StatusOr<std::vector<int64_t>> ReadLabels(const Dataset& data, const std::string& feature) {
  std::vector<int64_t> labels(static_cast<size_t>(data.size()));
  std::string record;
  for (int64_t i = 0; i < data.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(data.Read(i, record));
    const Status found = FindInt64Feature(record, feature, &labels[static_cast<size_t>(i)]);
    if (!found.ok()) return Annotate(found, data.Where(i));
  }
  return labels;
}

std::vector<std::vector<uint32_t>> LabelPiles(const std::vector<int64_t>& labels, uint64_t seed) {
  std::map<int64_t, std::vector<uint32_t>> by_label;
  for (size_t i = 0; i < labels.size(); ++i) by_label[labels[i]].push_back(static_cast<uint32_t>(i));
  std::vector<std::vector<uint32_t>> piles;
  Draws shuffle = PartitionDraws(seed, PartitionOp::kClassOrder);
  for (const auto& [label, members] : by_label) {
    const std::vector<uint32_t> order = Permutation(shuffle, static_cast<uint32_t>(members.size()));
    std::vector<uint32_t>& pile = piles.emplace_back();
    for (const uint32_t position : order) pile.push_back(members[position]);
  }
  return piles;
}

double LogGamma(double shape, Draws& draws) {
  double boost = 0;
  if (shape < 1) {
    boost = math::Log(1 - draws.Uniform()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.Normal();
    const double base = 1 + c * x;
    if (base <= 0) continue;
    const double v = base * base * base;
    if (math::Log(1 - draws.Uniform()) < 0.5 * x * x + d - d * v + d * math::Log(v)) return math::Log(d * v) + boost;
  }
}

}  // namespace rivulet
