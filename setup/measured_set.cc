#include "setup/measured_set.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "federated/plan/base_values.h"
#include "federated/plan/rates.h"

namespace rivulet {

namespace {

// The variance of each number of the target over all examples, averaged over the numbers. Welford's recurrence keeps
// the digits of a small variance with a large mean.
StatusOr<double> TargetVariance(const FeatureSpec& target, const std::shared_ptr<const Dataset>& data) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create({&target, 1}));
  const DatasetExamples examples(data, std::nullopt, decoder);
  FeedSpec feed = decoder->FeedSpecs(1)[0];
  std::vector<float> values(static_cast<size_t>(feed.spec.shape.elements()));
  const TensorView view = {reinterpret_cast<std::byte*>(values.data()), feed.spec.dtype, feed.spec.shape};
  std::vector<double> means(values.size()), squares(values.size());
  for (int64_t i = 0; i < examples.size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    RIVULET_RETURN_IF_ERROR(examples.Decode({&index, 1}, {&view, 1}));
    for (size_t k = 0; k < values.size(); ++k) {
      const double delta = values[k] - means[k];
      means[k] += delta / static_cast<double>(i + 1);
      squares[k] += delta * (values[k] - means[k]);
    }
  }
  return std::accumulate(squares.begin(), squares.end(), 0.0) /
         static_cast<double>(examples.size() * std::ssize(values));
}

}  // namespace

StatusOr<MeasuredSet> MeasuredSet::Of(const Plan& plan, const std::shared_ptr<const Dataset>& data,
                                      const std::string& set) {
  if (data->size() == 0) {
    const bool has_key = set == "test" || set == "validation";
    return InvalidArgument("{}{} has no examples", has_key ? "data." : "data.tests: ", set);
  }
  MeasuredSet evaluated(plan, set);
  const auto target = std::ranges::find(plan.features(), plan.model().label.placeholder, &FeatureSpec::placeholder);
  const bool explained =
      target != plan.features().end() && target->encoding == FeatureEncoding::kFloat &&
      std::ranges::find(evaluated.fetched_, set + "/mse", &Fetched::name) != evaluated.fetched_.end();
  if (explained) {
    RIVULET_ASSIGN_OR_RETURN(evaluated.target_variance_, TargetVariance(*target, data));
  }
  return evaluated;
}

MeasuredSet::MeasuredSet(const Plan& plan, const std::string& set) : set_(set) {
  const ModelDef& model = plan.model();
  fetched_ = {{set + "/loss", model.eval_loss}};
  for (const auto& [name, tensor] : model.metrics) {
    Fetched& fetched = fetched_.emplace_back(FetchedFor(model.graph, fmt::format("{}/{}", set, name), tensor));
    const std::optional<int64_t> counts = CountsOf(model.graph, name, tensor);
    if (!counts) continue;
    fetched.finish = FinishOf(name);
    fetched.width = static_cast<size_t>(*counts);
  }
  for (Fetched& fetched : fetched_) {
    fetched.first = width_;
    width_ += fetched.width;
  }
}

// A rate is exact through the bools that it is the mean of. They are fetched instead and summed as integers, and their
// number is the total, for any shape of the batch.
MeasuredSet::Fetched MeasuredSet::FetchedFor(const Graph& graph, const std::string& name, const std::string& tensor) {
  const std::optional<Output> ones = OnesOfRate(graph, tensor);
  if (!ones) return {name, tensor};
  return {name, ones->name(), true};
}

Signature MeasuredSet::SignatureFor(const Plan& plan, const ExampleDecoder& decoder, int64_t batch_size) const {
  Signature signature;
  signature.feeds = decoder.FeedSpecs(batch_size);
  for (const Fetched& fetched : fetched_) signature.fetches.push_back(fetched.tensor);
  signature.variables = BindVariables(*plan.layout());
  return signature;
}

Status MeasuredSet::Check(std::span<const TensorSpec> fetched) const {
  for (size_t i = 0; i < fetched_.size(); ++i) {
    const TensorSpec& spec = fetched[i];
    if (fetched_[i].counted) continue;
    if (fetched_[i].finish != nullptr && spec == TensorSpec{DType::kFloat32, {static_cast<int64_t>(fetched_[i].width)}})
      continue;
    if (spec.shape != Shape{} || (spec.dtype != DType::kFloat32 && spec.dtype != DType::kFloat64)) {
      return InvalidArgument("'{}' is {}{}; an evaluated tensor must be a float32 or float64 scalar",
                             fetched_[i].tensor, Name(spec.dtype), spec.shape.ToString());
    }
  }
  return absl::OkStatus();
}

void MeasuredSet::Read(size_t k, const TensorView& fetch, std::span<double> batch) const {
  const Fetched& fetched = fetched_[k];
  const std::span<double> into = batch.subspan(fetched.first, fetched.width);
  if (fetched.counted) {
    const auto ones = fetch.flat<float>();
    into[0] = std::accumulate(ones.begin(), ones.end(), 0.0);
  } else if (fetched.finish != nullptr) {
    std::ranges::copy(fetch.flat<float>(), into.begin());
  } else {
    into[0] = fetch.dtype == DType::kFloat64 ? fetch.flat<double>()[0] : fetch.flat<float>()[0];
  }
}

std::map<std::string, Measure> MeasuredSet::MeasuresOf(std::span<const double> values, int64_t examples,
                                                       int64_t batch_size, std::span<const TensorSpec> whole,
                                                       std::span<const TensorSpec> rest) const {
  const int64_t batches = (examples + batch_size - 1) / batch_size;
  std::map<std::string, Measure> result;
  for (size_t k = 0; k < fetched_.size(); ++k) {
    if (fetched_[k].finish != nullptr) {
      std::vector<double> sums(fetched_[k].width);
      for (int64_t batch = 0; batch < batches; ++batch) {
        const auto counts = values.subspan(static_cast<size_t>(batch) * width_ + fetched_[k].first, sums.size());
        std::ranges::transform(sums, counts, sums.begin(), std::plus<>());
      }
      for (const auto& [suffix, value] : fetched_[k].finish(sums)) result[fetched_[k].name + suffix] = {value};
      continue;
    }
    double sum = 0;
    int64_t total = 0;
    for (int64_t batch = 0; batch < batches; ++batch) {
      const int64_t size = std::min(batch_size, examples - batch * batch_size);
      const double value = values[static_cast<size_t>(batch) * width_ + fetched_[k].first];
      total += (size == batch_size ? whole : rest)[k].shape.elements();
      sum += fetched_[k].counted ? value : value * static_cast<double>(size);
    }
    const bool counted = fetched_[k].counted && total > 0;
    result[fetched_[k].name] =
        counted ? Measure::Rate(std::llround(sum), total) : Measure{sum / static_cast<double>(examples)};
  }
  if (target_variance_ > 0) result[set_ + "/r2"] = {1 - result[set_ + "/mse"].value / target_variance_};
  return result;
}

}  // namespace rivulet
