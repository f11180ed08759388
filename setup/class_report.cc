#include "setup/class_report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "engine/compile/compile.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/base_values.h"
#include "federated/plan/decoded_examples.h"
#include "federated/plan/example_source.h"

namespace rivulet {
namespace {

// Counts one row of scores: its predicted class, and its confidence.
void CountScores(std::span<const float> scores, int64_t label, ClassReport& report) {
  const auto highest = std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - *highest);
  const double confidence = 1 / sum;
  const int64_t taken_for = highest - scores.begin();
  ++report.counts[static_cast<size_t>(label * report.classes + taken_for)];
  ClassReport::Bin& bin = report.calibration[std::min<size_t>(static_cast<size_t>(confidence * 10), 9)];
  ++bin.examples;
  bin.right += taken_for == label ? 1 : 0;
  bin.confidence += confidence;
}

class ScoreCounter {
 public:
  ScoreCounter(const Plan& plan, std::shared_ptr<const Dataset> test, std::vector<Buffer> buffers, std::string scores)
      : plan_(plan), test_(std::move(test)), buffers_(std::move(buffers)), scores_(std::move(scores)) {}

  StatusOr<ClassReport> Count(int64_t batch_size, const DataProgress& progress) {
    RIVULET_ASSIGN_OR_RETURN(decoder_, ExampleDecoder::Create(plan_.features()));
    for (size_t i = 0; i < plan_.features().size(); ++i)
      if (plan_.features()[i].placeholder == plan_.model().label.placeholder) label_ = i;
    const int64_t examples = test_->size();
    const DecodedExamples source(test_, decoder_);
    for (int64_t begin = 0; begin < examples;) {
      const int64_t size = std::min(std::clamp<int64_t>(batch_size, 1, examples), examples - begin);
      if (size != batch_) RIVULET_RETURN_IF_ERROR(Prepare(size));
      RIVULET_RETURN_IF_ERROR(CountBatch(source, begin));
      begin += size;
      if (progress) RIVULET_RETURN_IF_ERROR(progress(begin, examples));
    }
    return std::move(report_);
  }

 private:
  Status Prepare(int64_t batch) {
    batch_ = batch;
    Signature signature;
    signature.feeds = decoder_->FeedSpecs(batch);
    signature.fetches = {scores_};
    signature.variables = BindVariables(*plan_.layout());
    RIVULET_ASSIGN_OR_RETURN(program_, CompileProgram(plan_.model().graph, signature, plan_.compile_options()));
    RIVULET_ASSIGN_OR_RETURN(instance_, program_->Instantiate());
    const TensorSpec& spec = program_->fetch_specs()[0];
    const auto& sizes = spec.shape.dims();
    if (spec.dtype != DType::kFloat32 || sizes.size() < 2 || sizes[0] != batch || sizes.back() < 1)
      return InvalidArgument("'{}' is {}{}, and scores are float32 with one for each class", scores_, Name(spec.dtype),
                             spec.shape.ToString());
    if (sizes.back() > kMostClassesReported)
      return InvalidArgument("there are {} classes, and a report by class has at most {}", sizes.back(),
                             kMostClassesReported);
    if (report_.counts.empty()) {
      report_.classes = sizes.back();
      report_.counts.assign(static_cast<size_t>(report_.classes * report_.classes), 0);
    }
    RIVULET_ASSIGN_OR_RETURN(arena_, AlignedBuffer::Create(program_->memory().arena_bytes));
    fetched_ = AlignedBuffer(TensorBytes(spec));
    fed_.clear();
    for (const FeedSpec& feed : signature.feeds) fed_.emplace_back(TensorBytes(feed.spec));
    return absl::OkStatus();
  }

  Status CountBatch(const DecodedExamples& source, int64_t begin) {
    std::vector<TensorView> feeds, fetches;
    const std::vector<FeedSpec>& specs = program_->signature().feeds;
    for (size_t i = 0; i < specs.size(); ++i)
      feeds.push_back({fed_[i].data(), specs[i].spec.dtype, specs[i].spec.shape});
    const TensorSpec& spec = program_->fetch_specs()[0];
    fetches.push_back({fetched_.data(), spec.dtype, spec.shape});
    RIVULET_RETURN_IF_ERROR(source.Feed(static_cast<uint32_t>(begin), batch_, feeds));
    Bindings bindings;
    bindings.arena = arena_.data();
    bindings.buffers = buffers_;
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    RIVULET_RETURN_IF_ERROR(instance_->Run(bindings));
    const auto scores = fetches[0].flat<float>();
    const auto labels = feeds[label_].flat<int64_t>();
    const auto classes = static_cast<size_t>(report_.classes);
    if (labels.size() * classes != scores.size())
      return InvalidArgument("'{}' has {} scores for {} labels of {} classes", scores_, scores.size(), labels.size(),
                             classes);
    if (!std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }))
      return InvalidArgument("'{}' has scores that are no numbers: the model has diverged", scores_);
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || labels[i] >= report_.classes) continue;  // a padding position
      CountScores(scores.subspan(i * classes, classes), labels[i], report_);
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const std::shared_ptr<const Dataset> test_;
  const std::vector<Buffer> buffers_;  // the graph only reads its variables, so the model's own memory is used
  const std::string scores_;
  std::shared_ptr<const ExampleDecoder> decoder_;
  size_t label_ = 0;
  int64_t batch_ = 0;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Instance> instance_;
  AlignedBuffer arena_, fetched_;
  std::vector<AlignedBuffer> fed_;
  ClassReport report_;
};

}  // namespace

int64_t ClassReport::examples() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

ClassMeasures ClassReport::OfClass(int64_t label) const {
  ClassMeasures measures;
  int64_t taken = 0;
  for (int64_t other = 0; other < classes; ++other) {
    measures.examples += at(label, other);
    taken += at(other, label);
  }
  const auto right = static_cast<double>(at(label, label));
  if (taken > 0) measures.precision = right / static_cast<double>(taken);
  if (measures.examples > 0) measures.recall = right / static_cast<double>(measures.examples);
  if (right > 0) measures.f1 = 2 * right / static_cast<double>(taken + measures.examples);
  return measures;
}

double ClassReport::CalibrationError() const {
  double gaps = 0;
  int64_t all = 0;
  for (const Bin& bin : calibration) {
    gaps += std::abs(bin.confidence - static_cast<double>(bin.right));
    all += bin.examples;
  }
  return all > 0 ? gaps / static_cast<double>(all) : 0;
}

bool TellsClasses(const ModelDef& model, const std::string& scores) {
  const StatusOr<Output> found = model.graph.FindOutput(scores);
  const Shape& label = model.label.spec.shape;
  // Several labels have a score each.
  const bool each = found.ok() && found->shape().known_rank() && label.known_rank() &&
                    found->shape().rank() == label.rank() && Shape::Compatible(found->shape(), label);
  return model.label.encoding == FeatureEncoding::kInt64 && !each;
}

StatusOr<ClassReport> ReportClasses(const Plan& plan, std::shared_ptr<const Dataset> test, const Model& model,
                                    const std::string& scores, int64_t batch_size, const DataProgress& progress) {
  if (!TellsClasses(plan.model(), scores))
    return InvalidArgument(
        "the model predicts {}, not classes, so there is no confusion matrix",
        plan.model().label.encoding == FeatureEncoding::kInt64 ? "several labels of an example" : "numbers");
  if (test->size() == 0) return InvalidArgument("the test set has no examples");
  RIVULET_ASSIGN_OR_RETURN(std::vector<Buffer> buffers, BuffersOver(plan, model));
  StatusOr<ClassReport> report = Internal("nothing was counted");
  // On a separate thread, because compiling needs EnterWorkerThread, which must not change the caller's thread.
  std::thread([&] {
    EnterWorkerThread();
    report = ScoreCounter(plan, std::move(test), std::move(buffers), scores).Count(batch_size, progress);
  }).join();
  return report;
}

}  // namespace rivulet
