// NumPy's .npy files: one array after a header that is a Python literal (numpy.lib.format, versions 1 to 3).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct NpyHeader {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool fortran_order = false;  // column-major
  bool big_endian = false;
  size_t data_offset = 0;  // bytes before the data
};

// Parses the beginning of a file; the data may be missing. DATA_LOSS: a different format, or a truncated or malformed
// header. UNIMPLEMENTED: a dtype without a counterpart here (strings, objects, records, complex numbers).
StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes);

// Decodes a whole file to a row-major tensor in this machine's byte order. Errors as above, and DATA_LOSS if the size
// of the data contradicts the header.
StatusOr<Tensor> DecodeNpy(std::string_view bytes);
// The same for a file. Errors begin with the path.
StatusOr<Tensor> ReadNpy(FileSystem& fs, const std::string& path);

// Returns the bytes before the data of a row-major array; their number is a multiple of 64. INVALID_ARGUMENT: a dtype
// unknown to NumPy (bfloat16, resources, strings), or a shape that is not fully known.
StatusOr<std::string> NpyPreamble(DType dtype, const Shape& shape);

// Returns a whole file. bfloat16, which NumPy lacks, becomes float32 with the same values. Errors as above.
StatusOr<std::string> EncodeNpy(const TensorView& tensor);
// Writes a file atomically (WriteFileAtomically).
Status WriteNpy(FileSystem& fs, const std::string& path, const TensorView& tensor);

}  // namespace rivulet
