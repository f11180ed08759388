#include "simulations/attacks/shown_attack.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/available_cores.h"
#include "engine/data/record_files.h"
#include "setup/evaluator.h"
#include "simulations/attacks/adversaries.h"

namespace rivulet {
namespace {

// Those examples of a data set that can show an attack, changed by Attack::Show.
class ShownDataset final : public Dataset {
 public:
  static StatusOr<std::shared_ptr<const Dataset>> Of(std::shared_ptr<const Dataset> dataset,
                                                     std::shared_ptr<const Attack> attack) {
    auto shown = std::shared_ptr<ShownDataset>(new ShownDataset(std::move(dataset), std::move(attack)));
    std::string example;
    for (int64_t i = 0; i < shown->dataset_->size(); ++i) {
      RIVULET_RETURN_IF_ERROR(shown->dataset_->Read(i, example));
      const StatusOr<bool> shows = shown->attack_->Show(example);
      if (!shows.ok()) return Annotate(shows.status(), shown->dataset_->Where(i));
      if (*shows) shown->examples_.push_back(i);
    }
    return shown;
  }

  int64_t size() const override { return std::ssize(examples_); }
  Status Read(int64_t index, std::string& buffer) const override {
    RIVULET_RETURN_IF_ERROR(dataset_->Read(examples_[static_cast<size_t>(index)], buffer));
    return Annotate(attack_->Show(buffer).status(), Where(index));
  }
  std::string Where(int64_t index) const override { return dataset_->Where(examples_[static_cast<size_t>(index)]); }

 private:
  ShownDataset(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Attack> attack)
      : dataset_(std::move(dataset)), attack_(std::move(attack)) {}

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const Attack> attack_;
  std::vector<int64_t> examples_;
};

class BothEvaluators final : public Evaluator {
 public:
  BothEvaluators(std::shared_ptr<Evaluator> sets, std::unique_ptr<Evaluator> shown)
      : sets_(std::move(sets)), shown_(std::move(shown)) {}
  StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) override {
    RIVULET_ASSIGN_OR_RETURN(auto all, sets_->Evaluate(model));
    RIVULET_ASSIGN_OR_RETURN(auto shown, shown_->Evaluate(model));
    all.merge(shown);  // a user's own set of this name among data.tests has priority
    return all;
  }

 private:
  const std::shared_ptr<Evaluator> sets_;
  const std::unique_ptr<Evaluator> shown_;
};

}  // namespace

StatusOr<std::shared_ptr<Evaluator>> WithAttackShown(RunSetup& setup, std::shared_ptr<Evaluator> sets, int threads) {
  const Scenario& scenario = setup.scenario();
  if (sets == nullptr || scenario.attack.name.empty() || scenario.data.test.empty()) return sets;
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Attack> attack, AttackOf(scenario));
  if (!attack->shows()) return sets;
  RIVULET_ASSIGN_OR_RETURN(auto test, OpenRecordsMatching(scenario.data.test));
  RIVULET_ASSIGN_OR_RETURN(auto shown, ShownDataset::Of(std::move(test), std::move(attack)));
  if (shown->size() == 0) return sets;  // all have the label anyway
  RIVULET_ASSIGN_OR_RETURN(auto plan, setup.plan());
  const int cores = AvailableCores();
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Evaluator> evaluator,
                           CentralEvaluator::Create(std::move(plan), std::move(shown),
                                                    {.set = scenario.attack.name,
                                                     .batch_size = scenario.evaluation.batch_size,
                                                     .threads = threads > 0 ? std::min(threads, cores) : cores,
                                                     .rows = setup.row_budget()}));
  return std::shared_ptr<Evaluator>(std::make_shared<BothEvaluators>(std::move(sets), std::move(evaluator)));
}

}  // namespace rivulet
