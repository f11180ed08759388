#include "federated/server_optimizers/averaged.h"

#include <algorithm>
#include <utility>

namespace rivulet {
namespace {

// The last flat is the average; those before it belong to the wrapped optimiser, which sees only them.
class AveragedOptimizer final : public ServerOptimizer {
 public:
  AveragedOptimizer(std::unique_ptr<const ServerOptimizer> optimizer, double average)
      : optimizer_(std::move(optimizer)), average_(average) {}

  std::vector<Flat> Flats() const override {
    std::vector<Flat> flats = optimizer_->Flats();
    flats.push_back({.name = kServerAverage, .from_model = true});
    return flats;
  }
  std::vector<std::string> Models() const override { return optimizer_->Models(); }
  std::vector<std::string> Parts() const override { return optimizer_->Parts(); }
  double Factor(VersionMean& mean, const VersionSums& sums) const override { return optimizer_->Factor(mean, sums); }

  bool Step(const ServerStep& step) const override {
    if (!optimizer_->Step(step)) return false;
    if (step.segment == Segment::kShared) return true;
    const std::span<float> average = step.flats.back();
    for (size_t i = 0; i < average.size(); ++i) {
      average[i] = static_cast<float>(average_ * average[i] + (1 - average_) * step.next[i]);
    }
    return true;  // an average of finite numbers is finite
  }

 private:
  const std::unique_ptr<const ServerOptimizer> optimizer_;
  const double average_;
};

}  // namespace

std::unique_ptr<const ServerOptimizer> Averaged(std::unique_ptr<const ServerOptimizer> optimizer, double average) {
  return std::make_unique<AveragedOptimizer>(std::move(optimizer), average);
}

std::shared_ptr<const Model> ModelOfFlat(const ServerState& state, std::string_view flat) {
  const std::span<const float> weights = state.flat(flat);
  auto model = std::make_shared<Model>(state.model->shared_layout());
  std::ranges::copy(state.model->arena(), model->arena().begin());
  for (const Slice& slice : model->layout().slices()) {
    if (slice.segment != Segment::kTrainable) continue;
    std::ranges::copy(weights.subspan(static_cast<size_t>(slice.wire_offset), static_cast<size_t>(slice.elements)),
                      model->tensor(slice).flat<float>().begin());
  }
  return model;
}

std::shared_ptr<const Model> MeasuredModel(const ServerState& state) {
  return state.flat(kServerAverage).empty() ? state.model : ModelOfFlat(state, kServerAverage);
}

}  // namespace rivulet
