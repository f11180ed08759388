// safetensors files: named tensors of raw little-endian, row-major bytes after a JSON header.
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

// One tensor. `data` is borrowed: from the parsed bytes when reading, from the caller when writing.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> data;  // with any alignment when reading
};

struct SafetensorsContent {
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::vector<SafetensorsEntry> tensors;        // in the order of their data
  std::vector<size_t> by_name;                  // indices in `tensors`, ordered by name

  const SafetensorsEntry* Find(std::string_view name) const;  // nullptr if there is none
};

// One tensor of a file whose data are stored elsewhere.
struct SafetensorsPlace {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // range of its data, relative to the end of the header
};

struct SafetensorsLayout {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsPlace> tensors;  // in the order of their data
};

// Largest size of the header, as in the format's reference implementation.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Parses a whole file in `bytes`, which must outlive the result. The tensors' data must cover the bytes
// after the header without gaps or overlaps. DATA_LOSS: fewer than 8 bytes, a header longer than the file or
// the limit, a header that is not a JSON object of the format, a duplicate name, sizes that contradict dtype
// and shape, an overlap, a gap or data beyond the end. UNIMPLEMENTED: a dtype of the format that Rivulet
// lacks.
StatusOr<SafetensorsContent> ParseSafetensors(std::string_view bytes);

// Parses only a header: `text` is its JSON, and `data_bytes` follow it in the file. Errors as ParseSafetensors.
StatusOr<SafetensorsLayout> ParseSafetensorsHeader(std::string_view text, uint64_t data_bytes);
// Returns the length field of a file of `file_bytes` that begins with `start`. DATA_LOSS as ParseSafetensors.
StatusOr<uint64_t> SafetensorsHeaderBytes(std::string_view start, uint64_t file_bytes);

// Returns the length field and JSON header of a file whose data are those of `tensors`, concatenated. The writer
// appends the data, so that it never holds the whole file. Padded with spaces so that the data start at a
// multiple of 64 bytes. INVALID_ARGUMENT: a name that is a duplicate or "__metadata__", a name or metadata text
// that is not UTF-8, a dtype that the format lacks, data whose size contradicts dtype and shape, or a header
// above the limit.
StatusOr<std::string> SafetensorsHeader(std::span<const SafetensorsEntry> tensors,
                                        const std::map<std::string, std::string>& metadata);

// The same for tensors whose data are elsewhere: only the difference of `begin` and `end` counts, and the data are
// concatenated in the order of `tensors`.
StatusOr<std::string> SafetensorsHeaderOf(std::span<const SafetensorsPlace> tensors,
                                          const std::map<std::string, std::string>& metadata);

// Returns header and data. Errors as above.
StatusOr<std::string> SerializeSafetensors(std::span<const SafetensorsEntry> tensors,
                                           const std::map<std::string, std::string>& metadata);

}  // namespace rivulet
