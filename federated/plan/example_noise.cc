#include "federated/plan/example_noise.h"

#include <algorithm>

namespace rivulet {
namespace {

// A step of the expected size runs two programs, and rarely three. Large batches run more: the rounding error of a
// program's sum grows with the square of its rows, and noise must cover it.
constexpr int64_t kRowsOfMany = 8, kMostRows = 128;

double NumberOf(const SettingValues& settings, const char* name, double otherwise) {
  const auto found = settings.find(name);
  const double* const number = found == settings.end() ? nullptr : std::get_if<double>(&found->second);
  return number == nullptr ? otherwise : *number;
}

}  // namespace

std::optional<ExampleNoise> ExampleNoiseOf(const Plan& plan) {
  const auto& mechanisms = plan.training().mechanisms;
  const auto found = std::ranges::find(mechanisms, kExampleMechanism, &PieceSpec::name);
  if (found == mechanisms.end()) return std::nullopt;
  ExampleNoise noise;
  noise.clip = NumberOf(found->settings, "clip", noise.clip);
  noise.multiplier = NumberOf(found->settings, "multiplier", noise.multiplier);
  noise.epsilon = NumberOf(found->settings, "epsilon", noise.epsilon);
  noise.delta = NumberOf(found->settings, "delta", noise.delta);
  const auto source = found->settings.find("source");
  if (source != found->settings.end()) {
    const auto* const text = std::get_if<std::string>(&source->second);
    noise.seeded = text != nullptr && *text == "seeded";
  }
  return noise;
}

int64_t ExampleRows(int64_t batch_size) {
  const int64_t half = (batch_size + 1) / 2;
  return std::clamp<int64_t>((half + kRowsOfMany - 1) / kRowsOfMany * kRowsOfMany, kRowsOfMany, kMostRows);
}

Status CheckExampleTraining(const Plan& plan) {
  const auto refuse = [&](std::string_view why) {
    return FailedPrecondition("plan '{}' protects single examples (privacy.unit), and {}", plan.name(), why);
  };
  if (plan.external()) return refuse("clients of a model without a graph train in their own way");
  const LocalProgram& training = plan.training();
  if (training.passes.size() != 1) {
    return refuse(fmt::format("its training has {} passes over the data; it may have one", training.passes.size()));
  }
  const LocalPass& pass = training.passes[0];
  if (pass.models != std::vector<ModelInstance>(1) || pass.gradient_by != "params" || !pass.other_gradient_by.empty()) {
    return refuse("its training has other instances of the model than the trained one");
  }
  if (pass.loss != nullptr) return refuse("its algorithm has another loss than the model, which may mix examples");
  if (pass.input != nullptr) return refuse("its input is a graph (client.input_graph); batches must be drawn");
  if (!pass.training || pass.step == nullptr) return refuse("its pass does not train");
  if (!pass.scalars.empty()) {
    return refuse(fmt::format("its pass reports '{}', which has no noise", pass.scalars[0].name));
  }
  if (!pass.loss_scale.empty()) return refuse("its loss is scaled (client.precision); set it to \"float32\"");
  if (pass.partial_work != 0) return refuse("some tasks do less work (client.partial_work); set it to 0");
  if (!plan.model().train_updates.empty() || plan.layout()->elements(Segment::kShared) > 0) {
    return refuse("its model keeps running statistics of the data, which have no noise");
  }
  if (plan.program(TaskKind::kEvaluate) != nullptr) {
    return refuse("clients measure versions (evaluation.federated_every), which has no noise; set it to 0");
  }
  return absl::OkStatus();
}

}  // namespace rivulet
