// The page of each client's labels, by a run's configuration, if its data are here.
#include "engine/data/record_files.h"
#include "federated/scenario/scenario.h"
#include "inspect/partition_picture.h"
#include "pages/figures.h"
#include "pages/page_parts.h"
#include "pages/pages.h"
#include "setup/class_names.h"
#include "setup/partition_summary.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

constexpr int64_t kColumnsOfLabels = 200;

}  // namespace

// Data sets are only read: a page does not generate data that a run would generate.
StatusOr<PartitionSummary> LabelsOf(History& history, const std::string& name) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history.ResolveRun(name));
  RIVULET_ASSIGN_OR_RETURN(
      Scenario scenario,
      Scenario::ParseStored(run.config, fmt::format("the stored configuration of run {}", run.run_id)));
  const std::string train = scenario.data.train, label = ClassFeatureOf(scenario);
  if (label.empty())
    return NotFound("run '{}' learns {}, so its clients have no labels to count", run.run_id,
                    scenario.model.target == "numbers" ? "numbers" : "several labels of each example");
  if (train.empty() || !RecordFilesMatching(train).ok()) {
    return NotFound("the data of run '{}' are not on this machine{}, so the clients' labels are unknown here",
                    run.run_id, train.empty() ? "" : fmt::format(" ('{}')", train));
  }
  std::vector<std::string> names = ClassNamesOf(scenario, train);
  RunSetup setup(std::move(scenario));
  RIVULET_ASSIGN_OR_RETURN(const auto data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  RIVULET_ASSIGN_OR_RETURN(PartitionSummary summary, Summarise(*data, *shares, label, kColumnsOfLabels));
  summary.names = std::move(names);
  return summary;
}

StatusOr<std::string> LabelsPage(const PlacedRun& placed) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, placed.history.ResolveRun(placed.run));
  RIVULET_ASSIGN_OR_RETURN(const PartitionSummary summary, LabelsOf(placed.history, run.run_id));
  const std::string place = placed.prefix + run.run_id;
  const std::string body = fmt::format(
      "<p class=\"under\">{} examples of {} clients: {} to {} each, the median {}; {:.1f} labels a client.</p>\n{}",
      summary.examples, summary.clients, summary.smallest, summary.largest, summary.median, summary.labels_per_client,
      FigureHtml("labels by client", "", PartitionPicture(summary, "labels by client"),
                 PictureDownloads("of=labels&run=" + UrlText(place), run.run_id + "-labels"), true));
  return PageOf({.title = "Labels of " + run.run_id, .path = RunPath(place, run.run_id), .heading = ""}, body);
}

}  // namespace rivulet
