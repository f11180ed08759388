// safetensors files: named tensors of raw little-endian, row-major bytes behind a JSON header.
// docs/internals/formats.md has the layout. This file handles bytes, not models: federated/weights builds model files
// on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace rivulet {

// One tensor; `data` is borrowed: from the parsed bytes when read, from the caller when written.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> data;  // of any alignment when read
};

struct SafetensorsContent {
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::vector<SafetensorsEntry> tensors;        // in the order of their data
  std::vector<size_t> by_name;                  // places in `tensors`, in the order of the names

  const SafetensorsEntry* Find(std::string_view name) const;  // nullptr when there is none
};

// One tensor of a file whose data are elsewhere.
struct SafetensorsPlace {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // of its data, from the end of the header
};

struct SafetensorsLayout {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsPlace> tensors;  // in the order of their data
};

// The header may have at most this many bytes, as in the format's reference implementation.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Reads a whole file held in `bytes`, which must outlive the result. The tensors' data must cover what follows the
// header without a hole or an overlap. DATA_LOSS: fewer than 8 bytes, a header longer than the file or the limit, a
// header that is not a JSON object of the
//   format's shape, a name twice, sizes that do not fit dtype and shape, an overlap, a hole or data beyond the end.
// UNIMPLEMENTED: a dtype of the format that Rivulet lacks.
StatusOr<SafetensorsContent> ParseSafetensors(std::string_view bytes);

// A file's header alone: `text` is its JSON, and `data_bytes` follow it in the file. Errors as ParseSafetensors.
StatusOr<SafetensorsLayout> ParseSafetensorsHeader(std::string_view text, uint64_t data_bytes);
// What the length field says, of a file of `file_bytes` that begins with `start`. DATA_LOSS as ParseSafetensors.
StatusOr<uint64_t> SafetensorsHeaderBytes(std::string_view start, uint64_t file_bytes);

// The length field and JSON header of a file whose data are those of `tensors`, one after the other: a writer appends
// them itself and never holds the whole file. Padded with spaces so that the data start at a multiple of 64 bytes.
// INVALID_ARGUMENT: a name twice or "__metadata__", a name or a metadata text that is not UTF-8, a dtype without a name
// in
//   the format, data of another size than dtype and shape say, a header beyond the limit.
StatusOr<std::string> SafetensorsHeader(std::span<const SafetensorsEntry> tensors,
                                        const std::map<std::string, std::string>& metadata);

// The same of tensors whose data are elsewhere: of `begin` and `end` the difference counts, and the data lie one behind
// the other in the order of `tensors`.
StatusOr<std::string> SafetensorsHeaderOf(std::span<const SafetensorsPlace> tensors,
                                          const std::map<std::string, std::string>& metadata);

// Header and data. Errors as above.
StatusOr<std::string> SerializeSafetensors(std::span<const SafetensorsEntry> tensors,
                                           const std::map<std::string, std::string>& metadata);

}  // namespace rivulet
