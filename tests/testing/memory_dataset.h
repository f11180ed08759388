// A data set that lives in memory, and the bytes of examples for it.
#pragma once

#include <atomic>
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

// Images that say their label: bytes of a fixed generator, brighter in the rows of the label.
inline std::vector<std::string> DigitRecords(int n, uint32_t seed = 1) {
  std::vector<std::string> records;
  uint32_t state = seed * 2654435761u + 1;
  for (int i = 0; i < n; ++i) {
    const int label = i % 10;
    std::string image(784, '\0');
    for (size_t k = 0; k < image.size(); ++k) {
      state = state * 1664525u + 1013904223u;
      const uint32_t noise = state >> 26;  // 0 .. 63
      image[k] = static_cast<char>(static_cast<int>(k) / 79 == label ? 150 + noise : noise);
    }
    records.push_back(DigitExample(image, label));
  }
  return records;
}

class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(std::vector<std::string> records) : records_(std::move(records)) {}
  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  Status Read(int64_t index, std::string& buffer) const override {
    ++reads;
    buffer = records_[static_cast<size_t>(index)];
    return absl::OkStatus();
  }
  mutable std::atomic<int64_t> reads = 0;  // of records, so far

  std::string Where(int64_t index) const override {
    size_t byte = 0;
    for (int64_t i = 0; i < index; ++i) byte += records_[static_cast<size_t>(i)].size() + 16;
    return fmt::format("memory.tfrecord: record {} at byte {}", index, byte);
  }

 private:
  std::vector<std::string> records_;
};

}  // namespace rivulet::testing
