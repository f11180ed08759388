// The tables of losses and metrics for a scenario's [model]: kinds "objective" and "metric".
#include "engine/models/metrics/metric.h"
#include "engine/models/objectives/objective.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/whole_ratios.h"

namespace rivulet {
namespace {

[[maybe_unused]] const bool model_pieces_are_registered = [] {
  ForEachObjective([](const ObjectiveKind& objective) {
    SettingTableRegistration({.kind = "objective",
                              .name = objective.name,
                              .settings = objective.settings,
                              .doc = objective.doc,
                              .traits = {RatioTrait("class_weights")}});
  });
  ForEachMetric([](const MetricKind& metric) {
    const std::string name = metric.numbered ? metric.name + "_K" : metric.name;
    SettingTableRegistration({.kind = "metric", .name = name, .settings = {}, .doc = metric.doc});
  });
  return true;
}();

}  // namespace
}  // namespace rivulet
