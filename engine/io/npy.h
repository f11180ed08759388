// NumPy's .npy files: one array, a header in Python's notation before its bytes. numpy.load() opens what is written
// here; version 1.0, C order, little-endian.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// The bytes of the file. bfloat16, which NumPy has not, becomes float32 with the same values. UNIMPLEMENTED: a type
// without values.
StatusOr<std::string> EncodeNpy(const TensorView& tensor);

// Reads such a file, of version 1, 2 or 3. DATA_LOSS: it ends too early, or is no .npy file. INVALID_ARGUMENT: a header
// that is not NumPy's, sizes that overflow. UNIMPLEMENTED: a type that tensors have not, another byte order, Fortran's
// order of several dimensions.
StatusOr<Tensor> DecodeNpy(std::string_view bytes);

// Whole or not at all (WriteFileAtomically).
Status WriteNpy(FileSystem& fs, const std::string& path, const TensorView& tensor);
// Errors begin with the path.
StatusOr<Tensor> ReadNpy(FileSystem& fs, const std::string& path);

}  // namespace rivulet
