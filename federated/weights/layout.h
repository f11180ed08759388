// Layout of a model in memory: every variable is a slice of one flat arena, in canonical (TensorFlow) layout.
//
// Order: by segment (trainable, local, shared, frozen), then declaration order. Each slice starts at a multiple of 64
// bytes; the padding between is zero, and is neither sent nor digested. Gradients, optimiser slots and deltas mirror
// the arena's front part. "Wire order" is the same order without padding.
//
// Variables of segment base are in no arena and in no version: a base (base.h) has their values. The layout has their
// specs and the base's digest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

enum class Segment { kTrainable = 0, kShared = 1, kLocal = 2, kFrozen = 3, kBase = 4 };
// Segments in arena order: the variables that a task trains form one contiguous vector.
inline constexpr std::array kSegments = {Segment::kTrainable, Segment::kLocal, Segment::kShared, Segment::kFrozen};
std::string_view Name(Segment segment);                    // "trainable", "shared", "local", "frozen", "base"
StatusOr<Segment> SegmentFromName(std::string_view name);  // INVALID_ARGUMENT for other names

// Returns true if tasks train the segment's variables; trainable ones are sent, local ones stay with the client.
inline bool IsTrained(Segment segment) { return segment == Segment::kTrainable || segment == Segment::kLocal; }

struct VariableSpec {
  std::string name;
  TensorSpec spec;  // fully defined
  Segment segment = Segment::kTrainable;
};

struct Slice {
  std::string name;
  TensorSpec spec;
  Segment segment;
  size_t offset;  // bytes into the arena, a multiple of 64
  int64_t elements;
  int64_t wire_offset;  // elements before it in wire order; trainable and shared count together, others separately
};

class ModelLayout {
 public:
  // INVALID_ARGUMENT: no trainable element; more than 65,536 variables; a name that is repeated, empty, longer than
  // 1,024 bytes or not UTF-8; an unknown or overflowing shape; a dtype that safetensors lacks; a variable that is
  // neither float32 nor frozen nor in a base. `base` is the digest of the base for variables of that segment.
  // INVALID_ARGUMENT: there is such a variable and no base, or a base and no such variable.
  static StatusOr<ModelLayout> Create(std::span<const VariableSpec> declaration_order,
                                      const std::optional<Digest>& base = std::nullopt);

  // The variables of segment base, in declaration order, and their base's digest. All functions below leave them out.
  std::span<const VariableSpec> base_variables() const { return base_variables_; }
  const std::optional<Digest>& base() const { return base_; }

  std::span<const Slice> slices() const { return slices_; }                      // arena order
  std::span<const int> declaration_order() const { return declaration_order_; }  // indices into slices()
  const Slice* Find(std::string_view name) const;                                // nullptr if there is none
  // Elements without padding; the segment's offset in the arena, in bytes; its bytes with padding.
  int64_t elements(Segment segment) const { return elements_[static_cast<size_t>(segment)]; }
  size_t segment_offset(Segment segment) const { return segment_offset_[static_cast<size_t>(segment)]; }
  size_t segment_bytes(Segment segment) const { return segment_bytes_[static_cast<size_t>(segment)]; }
  size_t arena_bytes() const { return arena_bytes_; }
  // Bytes, with padding, of the variables that a task trains (trainable and local), which are first in the arena.
  size_t trained_bytes() const { return segment_offset(Segment::kLocal) + segment_bytes(Segment::kLocal); }
  // Elements of a delta in wire order: trainable, then shared.
  int64_t update_elements() const { return elements(Segment::kTrainable) + elements(Segment::kShared); }
  int64_t parameters() const { return elements(Segment::kTrainable); }
  // SHA-256 over the base's digest, names, dtypes and shapes in the form of model_digest, without data. Models with
  // equal layout digests are interchangeable.
  Digest digest() const;

 private:
  std::vector<Slice> slices_;
  std::vector<int> declaration_order_;
  std::vector<VariableSpec> base_variables_;
  std::optional<Digest> base_;
  std::array<int64_t, 5> elements_{};
  std::array<size_t, 5> segment_offset_{}, segment_bytes_{};
  size_t arena_bytes_ = 0;
};

// Hashes the header of a tensor for model_digest: name, dtype, rank, dims.
void HashTensorHeader(std::string_view name, const TensorSpec& spec, Sha256& hash);
// Hashes the prefix of a digest for a model with a base: a label, and the base's digest. Without a base it hashes
// nothing.
void HashBase(const std::optional<Digest>& base, Sha256& hash);

}  // namespace rivulet
