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
  // What it holds at first: zeros; or zeros between tensors alone, of a model all of whose tensors are written next.
  enum class First { kZeros, kOverwritten };
  explicit Model(std::shared_ptr<const ModelLayout> layout, First first = First::kZeros);
  // In memory that exists already, 64-byte aligned, of at least arena_bytes(), which it leaves as it is: the caller
  // writes every tensor and then calls ClearPadding. The memory is freed with the model.
  Model(std::shared_ptr<const ModelLayout> layout, std::shared_ptr<std::byte> room);
  // Writes the zeros between and behind tensors.
  void ClearPadding();
  const ModelLayout& layout() const { return *layout_; }
  std::shared_ptr<const ModelLayout> shared_layout() const { return layout_; }
  std::span<std::byte> arena() { return {arena_.get(), layout_->arena_bytes()}; }
  std::span<const std::byte> arena() const { return {arena_.get(), layout_->arena_bytes()}; }
  TensorView tensor(const Slice& slice) const;

  // model_digest of DESIGN: SHA-256 over, for each tensor of every segment but local, in declaration order: name length
  // (u32) and UTF-8 name, length (u8) and text of the safetensors dtype, rank (u32), dims (u64 each), row-major data
  // without padding; all little-endian. Of a model on top of a base model HashBase's bytes come first.
  Digest ComputeDigest() const;
  // The same while the model is being made: asks before it reads whether the arena's first `end` bytes are there, and
  // waits in that question. False: it is not to be finished, and neither is `digest`.
  void ComputeDigest(Digest& digest, const std::function<bool(size_t end)>& await) const;

 private:
  std::shared_ptr<const ModelLayout> layout_;
  // Begins at a large page where it is long: steps of many clients read it from end to end.
  std::shared_ptr<std::byte> arena_;
};

// What a server keeps beside a model, by name ("server/m"): float32 in wire order, one value for each trainable
// element.
using ServerFlats = std::map<std::string, AlignedBuffer, std::less<>>;
// The digest of the base that a model file states, in hexadecimal digits; "" of a file that states none.
std::string StatedBase(const std::map<std::string, std::string>& metadata);
// The segments that a model file states, by the tensor's name; none of a file that states none.
std::map<std::string, std::string, std::less<>> StatedSegments(const std::map<std::string, std::string>& metadata);
// Names of the tensors that a model file says are the server's: those whose segment there is "server".
std::set<std::string> ServerTensors(const std::map<std::string, std::string>& metadata);
// The CRC-32C of each, eight hexadecimal digits, with blanks between: what a file states of them.
inline constexpr char kServerChecksumsKey[] = "rivulet.server_crc32c";
std::string ServerChecksums(const ServerFlats& flats);

// A model's safetensors file, with every tensor but the local ones (data in declaration order), as pieces that lie
// where they are: a header, then slices of the arena. So a version is written and served without a second copy of it.
// Holds the model; immutable.
class ModelFile {
 public:
  // `digest` is the model's. `metadata` goes into "__metadata__", with "rivulet.model_digest" and "rivulet.segments"
  // beside it. `flats`, unless null, follow the model, in the order of their names and with the segment "server"; none
  // has a variable's name.
  ModelFile(std::shared_ptr<const Model> model, const Digest& digest,
            const std::map<std::string, std::string>& metadata, std::shared_ptr<const ServerFlats> flats = nullptr);
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  int64_t bytes() const { return bytes_; }
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  // What begins at `offset`, 0 .. bytes(), as far as it lies in one piece; empty at the end.
  std::span<const std::byte> At(int64_t offset) const;

 private:
  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<const ServerFlats> flats_;
  std::string header_;
  std::vector<std::span<const std::byte>> pieces_;  // none is empty
  std::vector<int64_t> begins_;                     // of each
  int64_t bytes_ = 0;
};

// The same file in one string; `metadata` as there.
std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata);
// The reverse; what a file says is the server's is passed over. DATA_LOSS: not a valid safetensors file, or bytes that
// do not give the digest it states. INVALID_ARGUMENT: its tensors are not `layout`'s (names the first that differs), or
// it states a base that is not the layout's.
// `digest` receives the model's, for whoever wants it too: computing it is most of what reading costs.
StatusOr<std::shared_ptr<Model>> ModelFromSafetensors(std::shared_ptr<const ModelLayout> layout, std::string_view bytes,
                                                      Digest* digest = nullptr);

}  // namespace rivulet
