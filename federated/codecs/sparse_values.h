// Shared parts of codecs that send k of d values with their indices; the others count as zeros. Little-endian:
//
//   index  u32[k]  ascending
//   value  f32[k]  in the same order
//
// Example, -2 at index 1 and 1 at index 3: 01 00 00 00 03 00 00 00, 00 00 00 c0 00 00 80 3f.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "federated/codecs/codec.h"

namespace rivulet {

class SparseValues : public Codec {
 public:
  int64_t MaxBytes() const override { return static_cast<int64_t>(k_ * (sizeof(uint32_t) + sizeof(float))); }
  Status Check(std::span<const std::byte> bytes) const override;
  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override;
  std::optional<SparseRun> Sparse(std::span<const std::byte> bytes) const override { return RunOf(bytes); }

 protected:
  SparseValues(int64_t elements, int64_t k) : elements_(elements), k_(static_cast<size_t>(k)) {}
  int64_t elements() const { return elements_; }
  size_t k() const { return k_; }

  // Writes the k values, in ascending order of their indices.
  class Writer {
   public:
    Writer(size_t k, std::string& out);
    void Put(uint32_t index, float value);

   private:
    std::string& out_;
    size_t index_at_, value_at_;
  };

 private:
  SparseRun RunOf(std::span<const std::byte> bytes) const {
    return {bytes.data(), bytes.data() + k_ * sizeof(uint32_t), static_cast<int64_t>(k_)};
  }

  const int64_t elements_;
  const size_t k_;
};

// The setting `fraction` of a codec's table, and the k that it gives for `elements` values, at least 1.
// INVALID_ARGUMENT: `elements` exceeds 32-bit indices.
Setting FractionOfValues();
StatusOr<int64_t> ValuesOfFraction(int64_t elements, const Settings& settings);

}  // namespace rivulet
