#include "federated/plan/example_source.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/error_facts.h"
#include "engine/data/plain_example.h"
#include "engine/tensor/scaled_bytes.h"

namespace rivulet {

StatusOr<std::shared_ptr<const ExampleDecoder>> ExampleDecoder::Create(std::span<const FeatureSpec> features) {
  auto decoder = std::make_shared<ExampleDecoder>();
  for (const FeatureSpec& spec : features) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t values, spec.shape.CheckedElements());
    const Feature& feature = decoder->features_.emplace_back(Feature{spec, static_cast<size_t>(values)});
    decoder->names_.push_back(spec.feature);
    const bool bytes = spec.encoding == FeatureSpec::Encoding::kUint8,
               integers = spec.encoding == FeatureSpec::Encoding::kInt64;
    const size_t fed = feature.values * (integers ? sizeof(int64_t) : sizeof(float));
    const size_t stored = bytes ? feature.values : fed;
    decoder->stored_.push_back({decoder->extracted_bytes_, stored, fed, !bytes});
    decoder->extracted_bytes_ += (stored + 63) / 64 * 64;
    if (spec.encoding == FeatureSpec::Encoding::kInt64 && spec.scale != 1) {
      return InvalidArgument("feature '{}' is int64 with scale {}; integers are not scaled", spec.feature, spec.scale);
    }
    // Such a scale gives denormal values, which only some threads flush to zero.
    if (bytes && std::abs(spec.scale) < std::numeric_limits<float>::min()) {
      return InvalidArgument("feature '{}' has scale {}, below the least of float32's; scale it by more", spec.feature,
                             spec.scale);
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
  thread_local std::vector<std::byte> values;
  if (values.size() < extracted_bytes_) values.resize(extracted_bytes_);
  RIVULET_RETURN_IF_ERROR(Extract(example, values.data()));
  for (size_t i = 0; i < features_.size(); ++i)
    Expand(i, values.data() + stored_[i].offset, 1, feeds[i].data + static_cast<size_t>(row) * stored_[i].fed_bytes);
  return absl::OkStatus();
}

// Finds all features in one pass if the example has the usual layout; otherwise, and to report errors, each
// separately.
Status ExampleDecoder::Extract(std::string_view example, std::byte* values) const {
  std::array<std::string_view, 8> found;
  const bool plain =
      names_.size() <= found.size() && FindPlainFeatures(example, names_, std::span(found).first(names_.size()));
  for (size_t i = 0; i < features_.size(); ++i) {
    const FeatureSpec& spec = features_[i].spec;
    std::byte* const out = values + stored_[i].offset;
    const size_t count = features_[i].values;
    const auto of_feature = [&](Status status) { return WithFact(std::move(status), kFeatureFact, spec.feature); };
    switch (spec.encoding) {
      case FeatureSpec::Encoding::kUint8: {
        std::string_view bytes;
        if (!plain || !ReadPlainBytes(found[i], &bytes))
          RIVULET_RETURN_IF_ERROR(of_feature(FindBytesFeature(example, spec.feature, &bytes)));
        if (bytes.size() != count) {
          return of_feature(InvalidArgument("feature '{}' has {} bytes, but the model takes {} ({})", spec.feature,
                                            bytes.size(), count, spec.shape.ToString()));
        }
        std::memcpy(out, bytes.data(), count);
        break;
      }
      case FeatureSpec::Encoding::kFloat: {
        const std::span<float> floats(reinterpret_cast<float*>(out), count);
        if (!plain || !ReadPlainFloats(found[i], floats))
          RIVULET_RETURN_IF_ERROR(of_feature(FindFloatFeature(example, spec.feature, floats)));
        if (spec.scale != 1) {
          for (float& value : floats) value = static_cast<float>(value * spec.scale);
        }
        break;
      }
      case FeatureSpec::Encoding::kInt64: {
        const std::span<int64_t> integers(reinterpret_cast<int64_t*>(out), count);
        if (!plain || !ReadPlainInt64s(found[i], integers))
          RIVULET_RETURN_IF_ERROR(of_feature(FindInt64Features(example, spec.feature, integers)));
        if (spec.upper_bound == 0) break;
        for (size_t k = 0; k < count; ++k) {
          if (integers[k] >= 0 && integers[k] < spec.upper_bound) continue;
          return of_feature(InvalidArgument("feature '{}' is {}{}, but the model has classes 0 to {}", spec.feature,
                                            integers[k], count > 1 ? fmt::format(" at {}", k) : "",
                                            spec.upper_bound - 1));
        }
        break;
      }
    }
  }
  return absl::OkStatus();
}

void ExampleDecoder::Expand(size_t feature, const std::byte* values, int64_t rows, std::byte* feed) const {
  const Stored& stored = stored_[feature];
  const size_t bytes = static_cast<size_t>(rows) * stored.bytes;
  if (stored.as_fed) {
    std::memcpy(feed, values, bytes);
    return;
  }
  ScaleBytes(reinterpret_cast<const uint8_t*>(values), static_cast<int64_t>(bytes), features_[feature].spec.scale,
             reinterpret_cast<float*>(feed));
}

DatasetExamples::DatasetExamples(std::shared_ptr<const DecodedExamples> examples,
                                 std::optional<std::span<const uint32_t>> indices)
    : examples_(std::move(examples)), indices_(indices) {}

DatasetExamples::DatasetExamples(std::shared_ptr<const Dataset> dataset,
                                 std::optional<std::span<const uint32_t>> indices,
                                 std::shared_ptr<const ExampleDecoder> decoder)
    : DatasetExamples(std::make_shared<const DecodedExamples>(std::move(dataset), std::move(decoder)), indices) {}

int64_t DatasetExamples::size() const {
  return indices_.has_value() ? static_cast<int64_t>(indices_->size()) : examples_->size();
}

Status DatasetExamples::Decode(std::span<const uint32_t> indices, std::span<const TensorView> feeds) const {
  if (!indices_.has_value()) return examples_->Decode(indices, feeds);
  thread_local std::vector<uint32_t> records;  // kept per thread, so that a step allocates nothing
  records.clear();
  for (const uint32_t mine : indices) {
    if (mine >= indices_->size()) return OutOfRange("example {} of {}", mine, indices_->size());
    records.push_back((*indices_)[mine]);
  }
  return examples_->Decode(records, feeds);
}

}  // namespace rivulet
