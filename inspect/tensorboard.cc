#include "inspect/tensorboard.h"

#include <algorithm>
#include <cmath>

#include "coordinator/history/questions.h"
#include "coordinator/stored_run.h"
#include "engine/data/record_files.h"
#include "engine/graph/drawing.h"
#include "engine/graphdef/graph_def.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/model.h"
#include "inspect/configuration.h"
#include "inspect/model_source.h"
#include "inspect/picture/matrix.h"
#include "setup/class_names.h"
#include "setup/class_report.h"

namespace rivulet {
namespace {

constexpr size_t kModelsSummarised = 12;
constexpr int64_t kModelBytesSummarised = 512'000'000;
constexpr double kPictureScale = 1.5;  // pixels a point

// The one table of a round's tags, for a row of the history and for a running run's report.
template <typename Round>
SummaryEvent SummaryOfRound(const Round& round) {
  SummaryEvent event{.step = round.round, .scalars = {}};
  const std::optional<double> loss = round.train_loss;
  if (loss && round.folded > 0) event.scalars.emplace_back("train/loss", *loss);
  event.scalars.emplace_back("round/folded", static_cast<double>(round.folded));
  event.scalars.emplace_back("round/lost", static_cast<double>(round.selected - round.folded));
  event.scalars.emplace_back("round/train_seconds", round.train_seconds);
  event.scalars.emplace_back("round/aggregate_seconds", round.aggregate_seconds);
  event.scalars.emplace_back("round/evaluate_seconds", round.evaluate_seconds);
  return event;
}

// Paths and storage settings do not affect results.
bool BearsOnLearning(const std::string& key) {
  for (const char* part : {"algorithm.", "client.", "server.", "update.", "privacy.", "model.", "data.partition."})
    if (key.starts_with(part)) return true;
  return key == "run.seed";
}

// Runs stored models over the test set of their run.
struct Confusions {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Dataset> test;
  std::string scores;
  int64_t batch_size = 0;
  std::vector<std::string> names;  // of classes

  StatusOr<SummaryImage> Draw(const std::string& path, const std::string& title) const {
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
    const StatusOr<std::shared_ptr<Model>> model = ModelFromSafetensors(plan->layout(), bytes);
    if (!model.ok()) return Annotate(model.status(), path);
    RIVULET_ASSIGN_OR_RETURN(const ClassReport report,
                             ReportClasses(*plan, test, **model, scores, batch_size, DataProgress()));
    const Picture picture = MatrixPicture(title, report.classes, report.counts, names);
    SummaryImage image{.tag = "confusion",
                       .width = std::lround(std::ceil(picture.width * kPictureScale)),
                       .height = std::lround(std::ceil(picture.height * kPictureScale)),
                       .png = {}};
    RIVULET_ASSIGN_OR_RETURN(image.png, PicturePng(picture, kPictureScale));
    return image;
  }
};

class KeptModelSummaries final : public ModelSummaries {
 public:
  KeptModelSummaries(std::string run_id, std::map<int64_t, std::string> paths, std::shared_ptr<const Plan> plan)
      : run_id_(std::move(run_id)), paths_(std::move(paths)), plan_(std::move(plan)) {}

  // A missing file for pictures is no error: everything else is written without them.
  void PreparePictures(const RunRow& run, size_t most) {
    if (most == 0 || paths_.empty()) return;
    const auto missing = [this](std::string what) { why_no_pictures_ = std::move(what); };
    if (plan_ == nullptr || plan_->external()) return missing("the history keeps no plan with a graph of the run");
    if (!PicturePng({.width = 1, .height = 1, .label = {}, .marks = {}}).ok())
      return missing("this program was built without libpng");
    const StatusOr<Scenario> scenario = Scenario::ParseStored(run.config, "the stored configuration");
    if (!scenario.ok()) return missing(std::string(Message(scenario.status())));
    const std::string& file = scenario->data.test;
    if (file.empty() || !RecordFilesMatching(file).ok())
      return missing(file.empty() ? "the run has no test set" : fmt::format("its test set is not at '{}'", file));
    StatusOr<std::shared_ptr<const Dataset>> test = OpenRecordsMatching(file);
    if (!test.ok()) return missing(std::string(Message(test.status())));
    const std::string scores = ScoresOf(plan_->model());
    if (scores.empty() || !TellsClasses(plan_->model(), scores)) return missing("its model has no scores by class");
    confusions_ = Confusions{plan_, *std::move(test), scores, scenario->evaluation.batch_size, ClassNamesOf(*scenario)};
    auto from = paths_.end();
    while (most-- > 0 && from != paths_.begin()) --from;
    pictures_from_ = from->first;
  }

  std::vector<int64_t> rounds() const override {
    std::vector<int64_t> rounds;
    for (const auto& [round, path] : paths_) rounds.push_back(round);
    return rounds;
  }
  const std::string& why_no_pictures() const override { return why_no_pictures_; }

  std::string graph_def() const override {
    if (plan_ == nullptr || plan_->external()) return "";
    const StatusOr<Graph> drawn = WithOutputShapes(plan_->model().graph);
    return SerializeGraph(drawn.ok() ? *drawn : plan_->model().graph);
  }

  Status AddTo(SummaryEvent& event) override {
    const auto found = paths_.find(event.step);
    if (found == paths_.end()) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, ReadSafetensors(found->second));
    std::map<std::string, std::vector<float>> now;
    for (const auto& [name, tensor] : weights) {
      if (tensor.dtype() != DType::kFloat32) continue;
      const auto values = tensor.view().flat<float>();
      event.histograms.emplace_back("weights/" + name, std::vector<double>(values.begin(), values.end()));
      now[name].assign(values.begin(), values.end());
      const auto before = last_.find(name);
      if (last_round_ != event.step - 1 || before == last_.end() || before->second.size() != now[name].size()) continue;
      std::vector<double> update(values.size());
      for (size_t i = 0; i < update.size(); ++i) update[i] = static_cast<double>(now[name][i]) - before->second[i];
      event.histograms.emplace_back("updates/" + name, std::move(update));
    }
    last_ = std::move(now);
    last_round_ = event.step;
    if (!confusions_ || event.step < pictures_from_) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(SummaryImage image,
                             confusions_->Draw(found->second, fmt::format("{}, round {}", run_id_, event.step)));
    event.images.push_back(std::move(image));
    return absl::OkStatus();
  }

 private:
  const std::string run_id_;
  const std::map<int64_t, std::string> paths_;  // of its models' files, by round
  const std::shared_ptr<const Plan> plan_;      // null: none was stored
  std::string why_no_pictures_;
  std::optional<Confusions> confusions_;
  int64_t pictures_from_ = 0;  // the first round with a picture
  std::map<std::string, std::vector<float>> last_;
  int64_t last_round_ = -1;
};

}  // namespace

SummaryEvent SummaryOf(const RoundRow& round) { return SummaryOfRound(round); }
SummaryEvent SummaryOf(const RoundReport& round) { return SummaryOfRound(round); }

Status AddClientsTo(SummaryEvent& event, History& history, const std::string& run_id, int64_t attempt,
                    const std::vector<std::string>& metrics) {
  RIVULET_ASSIGN_OR_RETURN(const auto tasks, history.ClientRounds(run_id, event.step));
  std::vector<double> losses, norms, seconds, staleness;
  for (const ClientRoundRow& task : tasks) {
    if (task.kind != "train" || task.attempt != attempt) continue;
    if (task.train_loss) losses.push_back(*task.train_loss);
    if (task.update_norm) norms.push_back(*task.update_norm);
    if (task.train_seconds) seconds.push_back(*task.train_seconds);
    if (task.staleness) staleness.push_back(static_cast<double>(*task.staleness));
  }
  event.histograms.emplace_back("clients/train_loss", std::move(losses));
  event.histograms.emplace_back("clients/update_norm", std::move(norms));
  event.histograms.emplace_back("clients/train_seconds", std::move(seconds));
  event.histograms.emplace_back("clients/staleness", std::move(staleness));
  for (const std::string& name : metrics) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<double> values, ClientMetric(history, run_id, name, event.step));
    event.histograms.emplace_back("clients/" + name, std::move(values));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::pair<std::string, HyperParameter>>> HyperParametersOf(History& history,
                                                                                const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const auto keys, history.RunKeys(run_id));
  std::vector<std::pair<std::string, HyperParameter>> parameters;
  for (const RunKeyRow& key : keys) {
    if (!BearsOnLearning(key.key) || key.value == "\"\"" || key.value == "[]") continue;
    const Cell cell = CellOfToml(key.value);
    if (const auto* truth = std::get_if<bool>(&cell)) parameters.emplace_back(key.key, *truth);
    if (const auto* whole = std::get_if<int64_t>(&cell)) parameters.emplace_back(key.key, static_cast<double>(*whole));
    if (const auto* number = std::get_if<double>(&cell)) parameters.emplace_back(key.key, *number);
    if (const auto* text = std::get_if<std::string>(&cell)) parameters.emplace_back(key.key, *text);
  }
  return parameters;
}

std::optional<SummaryEnd> SummaryEndOf(const std::string& run_status) {
  if (run_status == "finished") return SummaryEnd::kSuccess;
  if (run_status == "failed") return SummaryEnd::kFailure;
  if (run_status == "running") return SummaryEnd::kRunning;
  return std::nullopt;
}

StatusOr<std::unique_ptr<ModelSummaries>> ModelSummaries::Open(History& history, const RunRow& run,
                                                               size_t most_pictures) {
  RIVULET_ASSIGN_OR_RETURN(const auto models, history.Models(run.run_id));
  std::map<int64_t, std::string> paths;
  int64_t bytes = 0;
  for (auto model = models.rbegin(); model != models.rend() && paths.size() < kModelsSummarised; ++model) {
    if (model->path.empty()) continue;
    const std::string path = JoinPath(FolderOf(history.real_path()), model->path);
    if (!FileSystem::Default().Exists(path)) continue;  // the history was copied without it
    if (bytes += model->bytes; bytes > kModelBytesSummarised && !paths.empty()) break;
    paths[model->round] = path;
  }
  RIVULET_ASSIGN_OR_RETURN(auto plan, PlanOfStoredRun(history.path(), run.run_id));
  auto summaries = std::make_unique<KeptModelSummaries>(run.run_id, std::move(paths), std::move(plan));
  summaries->PreparePictures(run, most_pictures);
  return summaries;
}

}  // namespace rivulet
