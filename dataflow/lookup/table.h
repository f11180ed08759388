// A table from keys to values: the resource behind HashTableV2 and MutableHashTableV2.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dataflow/resources/resource_manager.h"
#include "engine/base/mutex.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Thread-safe.
class LookupTable final : public Resource {
 public:
  static constexpr std::string_view kType = "Table";
  // `filled_once`: all entries come from one Fill; before it, Find fails.
  LookupTable(DType key_dtype, DType value_dtype, bool filled_once)
      : key_dtype_(key_dtype), value_dtype_(value_dtype), filled_once_(filled_once) {}

  std::string_view type() const override { return kType; }
  size_t bytes() const override;
  // INVALID_ARGUMENT: the handle has other types, or the other kind of table.
  Status CheckHandle(const Node& handle) const override;

  // Keys and values must have one shape. INVALID_ARGUMENT: other types than
  // the table's, or one key with two values in a table that is filled once.
  // Fill also: FAILED_PRECONDITION: the table already has other entries.
  Status Fill(const Tensor& keys, const Tensor& values);
  Status Replace(const Tensor& keys, const Tensor& values);
  // FAILED_PRECONDITION: the table is filled once.
  Status Insert(const Tensor& keys, const Tensor& values);

  // Returns a tensor of the shape of `keys`. FAILED_PRECONDITION: a table that is filled once has not been filled.
  StatusOr<Tensor> Find(const Tensor& keys, const Tensor& default_value) const;
  StatusOr<int64_t> size() const;
  struct Entries {
    Tensor keys, values;
  };
  StatusOr<Entries> Export() const;

 private:
  // Elements have at most 8 bytes in all key and value types.
  using Word = uint64_t;
  struct Content {
    std::unordered_map<Word, size_t> places;  // index of a key in the vectors
    std::vector<Word> keys, values;
    bool operator==(const Content& other) const { return keys == other.keys && values == other.values; }
  };
  Status CheckTypes(const Tensor& keys, const Tensor& values) const;
  Status AddTo(Content& content, const Tensor& keys, const Tensor& values) const;
  Status CheckFilled() const REQUIRES(mutex_);

  const DType key_dtype_, value_dtype_;
  const bool filled_once_;
  mutable Mutex mutex_;
  Content content_ GUARDED_BY(mutex_);
  bool filled_ GUARDED_BY(mutex_) = false;
};

}  // namespace rivulet
