// Parts shared by the runs of one process: open data sets, their partitions, and the last evaluator. A run with the
// same parts as an earlier one makes none again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/decoded_examples.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// Cache for successive runs: not thread-safe, and an evaluator is used by one run at a time.
class SharedParts {
 public:
  // `row_bytes`: for decoded examples, of all runs together.
  explicit SharedParts(int64_t row_bytes) : row_budget_(std::make_shared<RowBudget>(row_bytes)) {}

  template <typename Part>
  using Make = std::function<StatusOr<std::shared_ptr<Part>>()>;
  // The part that was made under `name`, which identifies all its inputs, or else the result of `make`. Errors are
  // those of `make`, and are not stored.
  StatusOr<std::shared_ptr<const Dataset>> DatasetOf(const std::string& name, const Make<const Dataset>& make) {
    return Of(datasets_, name, make);
  }
  StatusOr<std::shared_ptr<const Shares>> SharesOf(const std::string& name, const Make<const Shares>& make) {
    return Of(shares_, name, make);
  }
  // It has threads and arenas, so only the last one is kept.
  StatusOr<std::shared_ptr<Evaluator>> EvaluatorOf(const std::string& name, const Make<Evaluator>& make) {
    if (!evaluators_.contains(name)) evaluators_.clear();
    return Of(evaluators_, name, make);
  }
  const std::shared_ptr<RowBudget>& row_budget() const { return row_budget_; }

 private:
  template <typename Part>
  static StatusOr<std::shared_ptr<Part>> Of(std::map<std::string, std::shared_ptr<Part>>& parts,
                                            const std::string& name, const Make<Part>& make) {
    if (const auto found = parts.find(name); found != parts.end()) return found->second;
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Part> part, make());
    return parts[name] = std::move(part);
  }

  const std::shared_ptr<RowBudget> row_budget_;
  std::map<std::string, std::shared_ptr<const Dataset>> datasets_;
  std::map<std::string, std::shared_ptr<const Shares>> shares_;
  std::map<std::string, std::shared_ptr<Evaluator>> evaluators_;
};

}  // namespace rivulet
