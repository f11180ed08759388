// A model version: a layout and the arena's bytes. Immutable once shared (shared_ptr<const Model>).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "federated/weights/layout.h"

namespace rivulet {

class Model {
 public:
  explicit Model(std::shared_ptr<const ModelLayout> layout);  // zeros
  const ModelLayout& layout() const { return *layout_; }
  std::shared_ptr<const ModelLayout> shared_layout() const { return layout_; }
  std::span<std::byte> arena() { return arena_.bytes(); }
  std::span<const std::byte> arena() const { return arena_.bytes(); }
  TensorView tensor(const Slice& slice) const;

  // model_digest of DESIGN: SHA-256 over, for each tensor of every segment but local, in declaration order: name length
  // (u32) and UTF-8 name, length (u8) and text of the safetensors dtype, rank (u32), dims (u64 each), row-major data
  // without padding; all little-endian.
  Digest ComputeDigest() const;

 private:
  std::shared_ptr<const ModelLayout> layout_;
  AlignedBuffer arena_;
};

// A safetensors file with every tensor but the local ones (data in declaration order); `metadata` goes into
// "__metadata__", with "rivulet.model_digest", "rivulet.segments" beside it.
std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata);
// The same of a model whose digest is known.
std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata,
                               const Digest& digest);
// The reverse. DATA_LOSS: not a valid safetensors file, or bytes that do not give the digest it states.
// INVALID_ARGUMENT: its tensors are not `layout`'s (names the first that differs).
StatusOr<std::shared_ptr<Model>> ModelFromSafetensors(std::shared_ptr<const ModelLayout> layout,
                                                      std::string_view bytes);

}  // namespace rivulet
