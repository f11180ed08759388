// NumPy's .npy files: one array behind a header that is a Python literal (numpy.lib.format, versions 1 to 3).
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

// Of the beginning of a file; the data need not be there. DATA_LOSS: not this format, a header that is cut off or is no
// literal of its form. UNIMPLEMENTED: a dtype without a counterpart here (strings, objects, records, complex numbers).
StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes);

// A whole file, as a row-major tensor in this machine's byte order. Errors as above, and DATA_LOSS where the data have
// another size than the header says.
StatusOr<Tensor> DecodeNpy(std::string_view bytes);
// Errors begin with the path.
StatusOr<Tensor> ReadNpy(FileSystem& fs, const std::string& path);

// What stands before the data of a row-major array; its length is a multiple of 64. INVALID_ARGUMENT: a dtype that
// NumPy has not (bfloat16, resources, strings), a shape that is not fully known.
StatusOr<std::string> NpyPreamble(DType dtype, const Shape& shape);

// A whole file. bfloat16, which NumPy has not, becomes float32 with the same values. Errors as above.
StatusOr<std::string> EncodeNpy(const TensorView& tensor);
// Whole or not at all (WriteFileAtomically).
Status WriteNpy(FileSystem& fs, const std::string& path, const TensorView& tensor);

}  // namespace rivulet
