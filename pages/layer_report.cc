#include "pages/layer_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "inspect/model_source.h"
#include "inspect/run_model.h"

namespace rivulet {
namespace {

constexpr size_t kModelsRead = 12;                // the newest stored ones
constexpr int64_t kModelBytesRead = 512'000'000;  // of all of them

// Measures of one tensor in one version.
struct LayerMeasures {
  double norm = 0, change = 0;  // of its values; of the difference from the previous version
  double zeros = 0;             // share
};

std::vector<float> FloatsOf(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat32) return {};
  const auto values = tensor.view().flat<float>();
  return {values.begin(), values.end()};
}

double NormOf(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

}  // namespace

StatusOr<LayerReport> LoadLayerReport(History& history, const std::string& name_of_run) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history.ResolveRun(name_of_run));
  RIVULET_ASSIGN_OR_RETURN(const auto models, history.Models(run.run_id));
  std::vector<ModelRow> kept;
  int64_t bytes = 0;
  for (auto model = models.rbegin(); model != models.rend() && kept.size() < kModelsRead; ++model) {
    if (model->path.empty()) continue;
    if (bytes += model->bytes; bytes > kModelBytesRead && !kept.empty()) break;
    kept.push_back(*model);
  }
  if (kept.empty()) return NotFound("the history keeps no model of run '{}'", run.run_id);
  std::ranges::reverse(kept);
  std::vector<std::pair<std::string, std::string>> layers;  // name and shape
  std::map<std::string, std::vector<std::pair<int64_t, LayerMeasures>>> measures;
  std::map<std::string, std::vector<float>> before;
  for (const ModelRow& model : kept) {
    RIVULET_ASSIGN_OR_RETURN(const RunModel found,
                             FindRunModel(history.path(), fmt::format("{}:{}", run.run_id, model.round)));
    RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, ReadSafetensors(found.path));
    if (layers.empty())
      for (const auto& [name, tensor] : weights)
        layers.emplace_back(name, fmt::format("{}{}", Name(tensor.dtype()), tensor.shape().ToString()));
    for (const auto& [name, tensor] : weights) {
      std::vector<float> values = FloatsOf(tensor);
      LayerMeasures& layer = measures[name].emplace_back(model.round, LayerMeasures{}).second;
      layer.norm = NormOf(values);
      if (!values.empty())
        layer.zeros = static_cast<double>(std::ranges::count(values, 0.0f)) / static_cast<double>(values.size());
      std::vector<float>& last = before[name];
      if (last.size() == values.size()) {
        double sum = 0;
        for (size_t i = 0; i < values.size(); ++i) sum += std::pow(static_cast<double>(values[i]) - last[i], 2);
        layer.change = std::sqrt(sum);
      }
      last = std::move(values);
    }
  }
  LayerReport report{.run_id = run.run_id,
                     .parameters = kept.back().parameters,
                     .bytes = kept.back().bytes,
                     .norms = {.title = "norm of each layer", .x_label = "round", .series = {}},
                     .changes = {.title = "change since the version before", .x_label = "round", .series = {}}};
  for (const ModelRow& model : kept) report.rounds.push_back(model.round);
  for (const auto& [name, shape] : layers) {
    const auto& of_layer = measures[name];
    const LayerMeasures& newest = of_layer.back().second;
    report.layers.push_back({name, shape, newest.norm, newest.change, newest.zeros});
    if (report.norms.series.size() >= kColours.size()) continue;  // more lines than colours would be indistinguishable
    ChartSeries& norm = report.norms.series.emplace_back();
    ChartSeries& change = report.changes.series.emplace_back();
    norm.label = change.label = name;
    for (const auto& [round, values] : of_layer) {
      norm.points.emplace_back(static_cast<double>(round), values.norm);
      if (round != of_layer.front().first) change.points.emplace_back(static_cast<double>(round), values.change);
    }
  }
  return report;
}

}  // namespace rivulet
