// A data set that lives in memory, and the bytes of examples for it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/dataset.h"
#include "proto/graph/example.pb.h"

namespace rivulet::testing {

// A serialized tf.train.Example with "image" (bytes), "label" (int64) and, unless empty, "writer" (bytes).
inline std::string DigitExample(const std::string& image, int64_t label, const std::string& writer = "") {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["image"].mutable_bytes_list()->add_value(image);
  features["label"].mutable_int64_list()->add_value(label);
  if (!writer.empty()) features["writer"].mutable_bytes_list()->add_value(writer);
  return example.SerializeAsString();
}

class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(std::vector<std::string> records) : records_(std::move(records)) {}
  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  Status Read(int64_t index, std::string& buffer) const override {
    buffer = records_[static_cast<size_t>(index)];
    return absl::OkStatus();
  }
  std::string Where(int64_t index) const override {
    size_t byte = 0;
    for (int64_t i = 0; i < index; ++i) byte += records_[static_cast<size_t>(i)].size() + 16;
    return fmt::format("memory.tfrecord: record {} at byte {}", index, byte);
  }

 private:
  std::vector<std::string> records_;
};

}  // namespace rivulet::testing
