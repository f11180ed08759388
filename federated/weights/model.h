// A model version: a layout and the arena's bytes. Immutable once shared (shared_ptr<const Model>).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "federated/weights/layout.h"

namespace rivulet {

class Model {
 public:
  // Initial contents: all zeros; or zeros between tensors only, for a model whose tensors are all written next.
  enum class First { kZeros, kOverwritten };
  explicit Model(std::shared_ptr<const ModelLayout> layout, First first = First::kZeros);
  // Uses existing memory, 64-byte aligned and of at least arena_bytes(), without initialising it: the caller writes
  // every tensor and then calls ClearPadding. The memory is freed with the model.
  Model(std::shared_ptr<const ModelLayout> layout, std::shared_ptr<std::byte> room);
  // Writes zeros into the gaps between and after tensors.
  void ClearPadding();
  const ModelLayout& layout() const { return *layout_; }
  std::shared_ptr<const ModelLayout> shared_layout() const { return layout_; }
  std::span<std::byte> arena() { return {arena_.get(), layout_->arena_bytes()}; }
  std::span<const std::byte> arena() const { return {arena_.get(), layout_->arena_bytes()}; }
  TensorView tensor(const Slice& slice) const;

  // The digest that rounds record. SHA-256 over, for each tensor of every segment but local, in declaration order: name
  // length (u32) and UTF-8 name, length (u8) and text of the safetensors dtype, rank (u32), dims (u64 each), row-major
  // data without padding; all little-endian. For a model with a base, HashBase's bytes come first.
  Digest ComputeDigest() const;
  // The same while the model is being computed. Before reading, it calls `await`, which blocks until the arena's first
  // `end` bytes are final. If `await` returns false, hashing stops and `digest` is not written.
  void ComputeDigest(Digest& digest, const std::function<bool(size_t end)>& await) const;

 private:
  std::shared_ptr<const ModelLayout> layout_;
  // Starts at a large page if it is long, because steps of many clients read it from end to end.
  std::shared_ptr<std::byte> arena_;
};

// Server state beside a model, by name ("server/m"): float32 in wire order, one value for each trainable
// element.
using ServerFlats = std::map<std::string, AlignedBuffer, std::less<>>;
// The base's digest that a model file states, in hexadecimal digits; "" if it states none.
std::string StatedBase(const std::map<std::string, std::string>& metadata);
// The segments that a model file states, by tensor name; empty if it states none.
std::map<std::string, std::string, std::less<>> StatedSegments(const std::map<std::string, std::string>& metadata);
// Names of the tensors with the segment "server" in a model file's metadata.
std::set<std::string> ServerTensors(const std::map<std::string, std::string>& metadata);
// The metadata with the CRC-32C of each server tensor: eight hexadecimal digits each, separated by blanks.
inline constexpr char kServerChecksumsKey[] = "rivulet.server_crc32c";
std::string ServerChecksums(const ServerFlats& flats);

// A model's safetensors file, with every tensor but the local ones (data in declaration order), as pieces that are not
// copied: a header, then slices of the arena. A version is written and served from these pieces. Keeps the model alive;
// immutable.
class ModelFile {
 public:
  // `digest` must be the model's. `metadata` is written to "__metadata__", with "rivulet.model_digest" and
  // "rivulet.segments" added. `flats`, unless null, follow the model, in the order of their names and with the segment
  // "server"; their names must differ from the variables'.
  ModelFile(std::shared_ptr<const Model> model, const Digest& digest,
            const std::map<std::string, std::string>& metadata, std::shared_ptr<const ServerFlats> flats = nullptr);
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  int64_t bytes() const { return bytes_; }
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  // The bytes from `offset`, 0 .. bytes(), to the end of the piece that contains it; empty at the end.
  std::span<const std::byte> At(int64_t offset) const;

 private:
  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<const ServerFlats> flats_;
  std::string header_;
  std::vector<std::span<const std::byte>> pieces_;  // none is empty
  std::vector<int64_t> begins_;                     // start of each piece
  int64_t bytes_ = 0;
};

// The same file in one string; `metadata` as above.
std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata);
// The reverse; server tensors of the file are ignored. DATA_LOSS: not a valid safetensors file, or its bytes do not
// match the digest that it states. INVALID_ARGUMENT: its tensors are not `layout`'s (names the first that differs), or
// it states a base that is not the layout's.
// `digest`, unless null, receives the model's digest: computing it is most of the cost of reading.
StatusOr<std::shared_ptr<Model>> ModelFromSafetensors(std::shared_ptr<const ModelLayout> layout, std::string_view bytes,
                                                      Digest* digest = nullptr);

}  // namespace rivulet
