// Conversion of records to feed tensors: TFRecord data of a client or a test set, decoded as a plan's features
// describe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/program/program.h"
#include "federated/plan/decoded_examples.h"
#include "federated/plan/plan.h"

namespace rivulet {

// Decodes one tf.train.Example into rows of the feed tensors. Immutable; one per plan, shared by all workers.
class ExampleDecoder {
 public:
  // INVALID_ARGUMENT: an int64 feature with a scale, or bytes with one below the least normal float32.
  static StatusOr<std::shared_ptr<const ExampleDecoder>> Create(std::span<const FeatureSpec> features);

  // Specs of the feeds for a batch, one per feature: float32 for bytes and floats, int64 for integers; batch first.
  std::vector<FeedSpec> FeedSpecs(int64_t batch_size) const;

  // Writes row `row` of every feed, in the order of the features. INVALID_ARGUMENT names the feature and the error:
  // missing, of another kind, a wrong number of values, an integer out of range.
  Status Decode(std::string_view example, int64_t row, std::span<const TensorView> feeds) const;

  // The same in two steps, for callers that cache the intermediate result: a feature's values as stored, checked. Bytes
  // are stored as bytes, a quarter of their fed size; other values as they are fed.
  struct Stored {
    size_t offset;     // offset of the feature in the output of Extract, a multiple of 64
    size_t bytes;      // of one example
    size_t fed_bytes;  // of one example
    bool as_fed;       // Expand only copies
  };
  std::span<const Stored> stored() const { return stored_; }
  size_t extracted_bytes() const { return extracted_bytes_; }  // of one example, with alignment
  // Writes the stored values of all features to `values`, of extracted_bytes() and aligned to 8. Errors as Decode.
  Status Extract(std::string_view example, std::byte* values) const;
  // Feeds the stored values of one feature for `rows` consecutive examples.
  void Expand(size_t feature, const std::byte* values, int64_t rows, std::byte* feed) const;

 private:
  struct Feature {
    FeatureSpec spec;
    size_t values;  // of one example
  };
  std::vector<Feature> features_;
  std::vector<std::string> names_;  // of the features
  std::vector<Stored> stored_;
  size_t extracted_bytes_ = 0;
};

// Examples, decoded by the plan's features. Thread-safe.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual int64_t size() const = 0;
  // Decodes examples `indices` (0 .. size()-1) into the feed tensors, one per feature of the plan, batch first. Errors
  // name file, record and byte: a label out of range, a wrong type, a wrong number of values.
  virtual Status Decode(std::span<const uint32_t> indices, std::span<const TensorView> feeds) const = 0;
  // The data set of the records, for callers that cache them decoded elsewhere: during the set's life, a record is
  // always the same example. Null: examples have no such identity and must not be cached.
  virtual std::shared_ptr<const DecodedExamples> set() const { return nullptr; }
  // The set's record for example `index` (0 .. size()-1).
  virtual uint32_t RecordOf(uint32_t index) const { return index; }
};

// The examples `indices` of a data set. Cheap to create: a virtual client's data is only this object.
class DatasetExamples : public ExampleSource {
 public:
  // `indices` must outlive this; nullopt: the whole data set.
  DatasetExamples(std::shared_ptr<const DecodedExamples> examples, std::optional<std::span<const uint32_t>> indices);
  // For a data set that is read once: nothing is cached.
  DatasetExamples(std::shared_ptr<const Dataset> dataset, std::optional<std::span<const uint32_t>> indices,
                  std::shared_ptr<const ExampleDecoder> decoder);
  int64_t size() const override;
  // Errors as DecodedExamples::Decode. Thread-safe.
  Status Decode(std::span<const uint32_t> indices, std::span<const TensorView> feeds) const override;
  std::shared_ptr<const DecodedExamples> set() const override { return examples_; }
  uint32_t RecordOf(uint32_t index) const override { return indices_.has_value() ? (*indices_)[index] : index; }

 private:
  const std::shared_ptr<const DecodedExamples> examples_;
  const std::optional<std::span<const uint32_t>> indices_;
};

}  // namespace rivulet
