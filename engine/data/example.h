// Views of tf.train.Example in the serialized message, without a copy. The parser agrees with Protobuf: packed and
// unpacked lists, repeated submessages merged, the last of several map entries or oneof members wins, unknown fields
// skipped. The functions of engine/data/dataset.h extract one feature.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

enum class FeatureKind { kNone, kBytes, kFloat, kInt64 };  // kNone: a Feature without a list
std::string_view Name(FeatureKind kind);                   // "none", "bytes", "float", "int64"

// One feature's list of values. The serialized Example must outlive it.
class FeatureView {
 public:
  FeatureKind kind() const { return kind_; }
  int64_t count() const { return count_; }  // number of values in the list
  // Calls `visit(value)` for each value of a kBytes list, in order.
  void ForEachBytes(const std::function<void(std::string_view)>& visit) const;
  // Value 0 of a list of that kind, which must not be empty.
  std::string_view FirstBytes() const;
  int64_t FirstInt64() const;
  // Copies the values of a kFloat list, or of a kInt64 list; `values` has the length count().
  void CopyFloats(std::span<float> values) const;
  void CopyInt64s(std::span<int64_t> values) const;

 private:
  friend class FeatureParser;
  friend class ExampleBuilder;
  FeatureKind kind_ = FeatureKind::kNone;
  int64_t count_ = 0;
  // Serialized lists that Protobuf would merge into one; almost always one.
  std::string_view list_;
  std::vector<std::string_view> more_lists_;
};

// All features, in byte order of their names. INVALID_ARGUMENT: not a well-formed Example.
StatusOr<std::vector<std::pair<std::string_view, FeatureView>>> ParseExample(std::string_view example);

// Classes of record payloads. kExample: exactly an Example (also for an empty payload); kSequenceExample: with feature
// lists.
enum class PayloadKind { kExample, kSequenceExample, kOther };
PayloadKind ClassifyPayload(std::string_view payload);

// Builds a serialized Example. Features are written in byte order of their names, so that equal content gives equal
// bytes.
class ExampleBuilder {
 public:
  ExampleBuilder& Bytes(std::string_view name, std::string_view value);
  ExampleBuilder& Int64(std::string_view name, int64_t value);
  ExampleBuilder& Int64s(std::string_view name, std::span<const int64_t> values);
  ExampleBuilder& Floats(std::string_view name, std::span<const float> values);
  // Adds a feature of another Example unchanged.
  ExampleBuilder& Copy(std::string_view name, const FeatureView& feature);
  std::string Serialize() const;

 private:
  void Add(std::string_view name, std::string feature);
  std::vector<std::pair<std::string, std::string>> features_;  // name, serialized Feature; sorted
};

}  // namespace rivulet
