#include "serving/served_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/base/nearest.h"
#include "engine/compile/compile.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/base_values.h"

namespace rivulet {
namespace {

TensorSpec WithBatch(TensorSpec row, int64_t batch) {
  std::vector<int64_t> dims = {batch};
  dims.insert(dims.end(), row.shape.dims().begin(), row.shape.dims().end());
  return {row.dtype, Shape(std::move(dims))};
}

std::string NodeOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

// A step's time is a moving average: each new one counts an eighth.
constexpr int kNewStepPart = 8;

}  // namespace

StatusOr<std::shared_ptr<const ServedPlan>> ServedPlan::Create(std::shared_ptr<const Plan> plan,
                                                               const ServedPlanOptions& options) {
  if (plan->external())
    return FailedPrecondition(
        "the run's model has no graph (model.arrays): how it predicts is known to its clients alone, so it cannot be "
        "served");
  if (plan->layout()->elements(Segment::kLocal) > 0)
    return FailedPrecondition(
        "the run's model has personal variables, which each client keeps for itself; what is left of it cannot be "
        "served");
  std::shared_ptr<ServedPlan> served(new ServedPlan);
  served->plan_ = std::move(plan);
  RIVULET_RETURN_IF_ERROR(served->FindOutputs(options));
  RIVULET_RETURN_IF_ERROR(served->FindInputs());
  // Compiled for one row, which gives the outputs' shapes; single requests use this program.
  RIVULET_ASSIGN_OR_RETURN(const auto program, served->ProgramOf(1));
  for (size_t i = 0; i < served->outputs_.size(); ++i) {
    const TensorSpec& spec = program->fetch_specs()[served->sources_[i].fetch];
    if (spec.shape.rank() < 1 || spec.shape.dim(0) != 1 || SizeOf(spec.dtype) == 0 || spec.dtype == DType::kString)
      return InvalidArgument("the output '{}' is {}{}; an output has a row for each example", served->outputs_[i].name,
                             Name(spec.dtype), spec.shape.ToString());
    if (served->sources_[i].softmax && (spec.dtype != DType::kFloat32 || spec.shape.rank() < 2))
      return InvalidArgument("'{}' is {}{}; probabilities are made of float32 scores, one for each class",
                             served->fetches_[served->sources_[i].fetch], Name(spec.dtype), spec.shape.ToString());
    served->outputs_[i].row = {spec.dtype,
                               Shape(std::vector<int64_t>(spec.shape.dims().begin() + 1, spec.shape.dims().end()))};
  }
  return served;
}

Status ServedPlan::FindOutputs(const ServedPlanOptions& options) {
  const ModelDef& model = plan_->model();
  const std::string scores = options.scores == nullptr ? "" : options.scores(model);
  std::vector<std::string> names = options.outputs;
  if (names.empty()) names = {scores};
  for (const std::string& name : names) {
    const bool softmax = name == kProbabilities && model.graph.Find(kProbabilities) == nullptr;
    const std::string tensor = softmax ? scores : name;
    if (tensor.empty())
      return FailedPrecondition("no tensor of the run's graph is known to hold scores; name an output with --output");
    const StatusOr<Output> found = model.graph.FindOutput(tensor);
    if (!found.ok()) return Annotate(found.status(), fmt::format("--output {}", name));
    const auto known = std::ranges::find(fetches_, tensor);
    sources_.push_back({static_cast<size_t>(known - fetches_.begin()), softmax});
    if (known == fetches_.end()) fetches_.push_back(tensor);
    outputs_.push_back({tensor.ends_with(":0") && !softmax ? NodeOf(tensor) : name, {}});
  }
  return absl::OkStatus();
}

// All features with placeholders that the outputs depend on: not the label.
Status ServedPlan::FindInputs() {
  std::vector<Node*> targets;
  for (const std::string& fetch : fetches_) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, plan_->model().graph.FindOutput(fetch));
    targets.push_back(output.node);
  }
  std::set<std::string> needed;
  for (const Node* node : plan_->model().graph.TopologicalOrder(targets)) needed.insert(node->name());
  for (const FeatureSpec& feature : plan_->features()) {
    if (!needed.contains(NodeOf(feature.placeholder))) continue;
    const DType dtype = feature.encoding == FeatureEncoding::kInt64 ? DType::kInt64 : DType::kFloat32;
    inputs_.push_back(
        {NodeOf(feature.placeholder), feature.encoding, {dtype, feature.shape}, feature.scale, feature.upper_bound});
    feeds_.push_back({feature.placeholder, WithBatch(inputs_.back().row, 1)});
    row_bytes_ += static_cast<int64_t>(TensorBytes(inputs_.back().row));
  }
  if (inputs_.empty()) return FailedPrecondition("the outputs depend on no feature of the run's examples");
  return absl::OkStatus();
}

int64_t ServedPlan::row_json_values() const {
  int64_t values = 0;
  for (const ServedInput& input : inputs_) {
    int64_t nested = 1;
    for (const int64_t dim : input.row.shape.dims()) {
      values += nested;  // a bracket each
      nested *= dim;
    }
    values += nested + 2;  // the numbers, and {"name": …}
  }
  return values;
}

StatusOr<std::shared_ptr<const Program>> ServedPlan::ProgramOf(int64_t batch) const {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& program = programs_[batch];
  if (program != nullptr) return program;
  Signature signature;
  for (const FeedSpec& feed : feeds_) {
    signature.feeds.push_back(feed);
    signature.feeds.back().spec.shape.set_dim(0, batch);
  }
  signature.fetches = fetches_;
  signature.variables = BindVariables(*plan_->layout());
  RIVULET_ASSIGN_OR_RETURN(program, CompileProgram(plan_->model().graph, signature, plan_->compile_options()));
  return program;
}

std::chrono::nanoseconds ServedPlan::StepTime(int64_t batch) const {
  MutexLock lock(mutex_);
  const auto found = steps_.lower_bound(batch);
  if (found != steps_.end()) return found->second;
  return steps_.empty() ? std::chrono::nanoseconds(0) : steps_.rbegin()->second;
}

void ServedPlan::TellStep(int64_t batch, std::chrono::nanoseconds took) const {
  MutexLock lock(mutex_);
  std::chrono::nanoseconds& time = steps_[batch];
  time = time.count() == 0 ? took : time + (took - time) / kNewStepPart;
}

void SoftmaxRows(std::span<float> scores, int64_t rows) {
  const size_t length = rows == 0 ? 0 : scores.size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows) && length > 0; ++row) {
    const std::span<float> of_row = scores.subspan(row * length, length);
    const float highest = *std::ranges::max_element(of_row);
    double sum = 0;
    for (const float score : of_row) sum += std::exp(static_cast<double>(score) - highest);
    for (float& score : of_row) score = static_cast<float>(std::exp(static_cast<double>(score) - highest) / sum);
  }
}

}  // namespace rivulet
