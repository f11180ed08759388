#include "client/training/lane_result.h"

namespace rivulet {

void DeclarePass(const LocalPass& pass, std::span<const double> sums, int64_t seen, Scalars& declared) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const PassScalar& scalar = pass.scalars[i];
    declared[scalar.name] = scalar.sum ? sums[i] : sums[i] / static_cast<double>(seen);
  }
}

void CloseResult(int64_t examples, uint64_t steps, LocalResult& result) {
  result.examples = examples;
  result.steps = static_cast<int64_t>(steps);
  if (const auto loss = result.declared.find("train_loss"); loss != result.declared.end())
    result.train_loss = loss->second;
  result.declared["examples"] = static_cast<double>(examples);
  result.declared["steps"] = static_cast<double>(steps);
}

}  // namespace rivulet
