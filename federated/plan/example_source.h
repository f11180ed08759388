// From records to feed tensors: TFRecord data, decoded as a plan's features say, of a client's share or of a test set.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/program/program.h"
#include "federated/plan/plan.h"

namespace rivulet {

// Decodes one tf.train.Example into rows of the feed tensors. Immutable; one per plan, shared by all workers.
class ExampleDecoder {
 public:
  // INVALID_ARGUMENT: an int64 feature with a scale.
  static StatusOr<std::shared_ptr<const ExampleDecoder>> Create(std::span<const FeatureSpec> features);

  // What each feature feeds for a batch: float32 for bytes and floats, int64 for integers; batch first.
  std::vector<FeedSpec> FeedSpecs(int64_t batch_size) const;

  // Writes row `row` of every feed (in the order of the features, as FeedSpecs says). INVALID_ARGUMENT names the
  // feature and the values: missing, another kind, another number of values, an integer out of range.
  Status Decode(std::string_view example, int64_t row, std::span<const TensorView> feeds) const;

 private:
  struct Feature {
    FeatureSpec spec;
    int64_t values;                    // of one example
    std::array<float, 256> of_byte{};  // byte × scale, rounded once
  };
  std::vector<Feature> features_;
};

// Examples, decoded as the plan's features say. Thread-safe.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual int64_t size() const = 0;
  // Decodes examples `indices` (0 .. size()-1) into the feed tensors, one per feature of the plan, batch first.
  // Errors name file, record and byte: a label out of range, a wrong type, a wrong number of values.
  virtual Status Decode(std::span<const uint32_t> indices, std::span<const TensorView> feeds) const = 0;
};

// The examples `indices` of a data set. Cheap to make: a virtual client's costs nothing but this object.
class DatasetExamples : public ExampleSource {
 public:
  // `indices` must outlive this; without it, the whole data set.
  DatasetExamples(std::shared_ptr<const Dataset> dataset, std::optional<std::span<const uint32_t>> indices,
                  std::shared_ptr<const ExampleDecoder> decoder);
  int64_t size() const override;
  // Errors begin with "FILE: record N at byte B". INVALID_ARGUMENT: a record that is not what the plan wants;
  // DATA_LOSS: damage. Thread-safe.
  Status Decode(std::span<const uint32_t> indices, std::span<const TensorView> feeds) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::optional<std::span<const uint32_t>> indices_;
  std::shared_ptr<const ExampleDecoder> decoder_;
};

}  // namespace rivulet
