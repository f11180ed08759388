// TFRecord files of tf.train.Example as one data set with random access. Memory-mapped and shared by all threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

class Dataset {
 public:
  // Opens the files (in the given order) and their indices; builds missing or outdated indices. GZIP and ZLIB files are
  // read into memory. Errors name file, record and byte offset (docs/internals/formats.md). NOT_FOUND: a missing file.
  static StatusOr<std::shared_ptr<const Dataset>> Open(const std::vector<std::string>& paths);
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Copies the payload of record `index` into `buffer` (resized) and verifies its CRC. Thread-safe. DATA_LOSS as above,
  // also if the file shrank since it was mapped.
  virtual Status Read(int64_t index, std::string& buffer) const = 0;
  // "FILE: record N at byte B", for errors about the payload.
  virtual std::string Where(int64_t index) const = 0;
};

// Views into one serialized tf.train.Example, without a copy. Feature `name` must have exactly the required kind and
// count. INVALID_ARGUMENT: malformed, missing feature (lists those present), another kind, another number of values.
Status FindBytesFeature(std::string_view example, std::string_view name, std::string_view* value);
Status FindInt64Feature(std::string_view example, std::string_view name, int64_t* value);
Status FindInt64Features(std::string_view example, std::string_view name, std::span<int64_t> values);
Status FindFloatFeature(std::string_view example, std::string_view name, std::span<float> values);

}  // namespace rivulet
