#include "federated/plan/example_source.h"

#include <utility>

namespace rivulet {

StatusOr<std::shared_ptr<const ExampleDecoder>> ExampleDecoder::Create(std::span<const FeatureSpec> features) {
  auto decoder = std::make_shared<ExampleDecoder>();
  for (const FeatureSpec& spec : features) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t values, spec.shape.CheckedElements());
    Feature& feature = decoder->features_.emplace_back(Feature{spec, values});
    if (spec.encoding == FeatureSpec::Encoding::kInt64 && spec.scale != 1) {
      return InvalidArgument("feature '{}' is int64 with scale {}; integers are not scaled", spec.feature, spec.scale);
    }
    for (int byte = 0; byte < 256; ++byte) {
      feature.of_byte[static_cast<size_t>(byte)] = static_cast<float>(byte * spec.scale);
    }
  }
  return std::shared_ptr<const ExampleDecoder>(std::move(decoder));
}

std::vector<FeedSpec> ExampleDecoder::FeedSpecs(int64_t batch_size) const {
  std::vector<FeedSpec> feeds;
  for (const Feature& feature : features_) {
    std::vector<int64_t> dims = {batch_size};
    dims.insert(dims.end(), feature.spec.shape.dims().begin(), feature.spec.shape.dims().end());
    const bool label = feature.spec.encoding == FeatureSpec::Encoding::kInt64;
    feeds.push_back({feature.spec.placeholder, {label ? DType::kInt64 : DType::kFloat32, Shape(std::move(dims))}});
  }
  return feeds;
}

Status ExampleDecoder::Decode(std::string_view example, int64_t row, std::span<const TensorView> feeds) const {
  for (size_t i = 0; i < features_.size(); ++i) {
    const Feature& feature = features_[i];
    const FeatureSpec& spec = feature.spec;
    const auto values = static_cast<size_t>(feature.values);
    switch (spec.encoding) {
      case FeatureSpec::Encoding::kUint8: {
        std::string_view bytes;
        RIVULET_RETURN_IF_ERROR(FindBytesFeature(example, spec.feature, &bytes));
        if (bytes.size() != values) {
          return InvalidArgument("feature '{}' has {} bytes, but the model takes {} ({})", spec.feature, bytes.size(),
                                 values, spec.shape.ToString());
        }
        float* out = reinterpret_cast<float*>(feeds[i].data) + static_cast<size_t>(row) * values;
        for (size_t k = 0; k < values; ++k) out[k] = feature.of_byte[static_cast<uint8_t>(bytes[k])];
        break;
      }
      case FeatureSpec::Encoding::kFloat: {
        const std::span<float> out(reinterpret_cast<float*>(feeds[i].data) + static_cast<size_t>(row) * values, values);
        RIVULET_RETURN_IF_ERROR(FindFloatFeature(example, spec.feature, out));
        if (spec.scale != 1) {
          for (float& value : out) value = static_cast<float>(value * spec.scale);
        }
        break;
      }
      case FeatureSpec::Encoding::kInt64: {
        const std::span<int64_t> out(reinterpret_cast<int64_t*>(feeds[i].data) + static_cast<size_t>(row) * values,
                                     values);
        RIVULET_RETURN_IF_ERROR(FindInt64Features(example, spec.feature, out));
        if (spec.upper_bound == 0) break;
        for (size_t k = 0; k < values; ++k) {
          if (out[k] >= 0 && out[k] < spec.upper_bound) continue;
          return InvalidArgument("feature '{}' is {}{}, but the model has classes 0 to {}", spec.feature, out[k],
                                 values > 1 ? fmt::format(" at {}", k) : "", spec.upper_bound - 1);
        }
        break;
      }
    }
  }
  return absl::OkStatus();
}

DatasetExamples::DatasetExamples(std::shared_ptr<const Dataset> dataset,
                                 std::optional<std::span<const uint32_t>> indices,
                                 std::shared_ptr<const ExampleDecoder> decoder)
    : dataset_(std::move(dataset)), indices_(indices), decoder_(std::move(decoder)) {}

int64_t DatasetExamples::size() const {
  return indices_.has_value() ? static_cast<int64_t>(indices_->size()) : dataset_->size();
}

Status DatasetExamples::Decode(std::span<const uint32_t> indices, std::span<const TensorView> feeds) const {
  thread_local std::string record;  // keeps its memory, so that a step allocates nothing
  for (size_t row = 0; row < indices.size(); ++row) {
    const uint32_t mine = indices[row];
    if (static_cast<int64_t>(mine) >= size()) return OutOfRange("example {} of {}", mine, size());
    const int64_t index = indices_.has_value() ? (*indices_)[mine] : mine;
    RIVULET_RETURN_IF_ERROR(dataset_->Read(index, record));
    const Status decoded = decoder_->Decode(record, static_cast<int64_t>(row), feeds);
    if (!decoded.ok()) return Annotate(decoded, dataset_->Where(index));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
