#include "coordinator/control/aggregator_names.h"

namespace rivulet {

bool AggregatorNames::Admit(const std::string& aggregator, const std::string& name) {
  if (most_ == 0 || brought_.contains(name)) return true;
  int64_t& count = counts_[aggregator];
  if (count >= most_) return false;
  ++count;
  brought_[name] = aggregator;
  return true;
}

void AggregatorNames::Withdraw(const std::string& aggregator, const std::string& name) {
  const auto found = brought_.find(name);
  if (found == brought_.end() || found->second != aggregator) return;
  brought_.erase(found);
  --counts_[aggregator];
}

}  // namespace rivulet
