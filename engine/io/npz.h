// NumPy's .npz files: a ZIP archive with one .npy array per name (numpy.savez, numpy.load).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Returns the arrays of a whole file, in file order, by their names without ".npy"; from savez or savez_compressed.
// Names are those in the file, including "dense/kernel"; they are never used as paths. Errors of engine/io/zip.h
// and engine/io/npy.h with the array's name. DATA_LOSS: a duplicate name, a member that is not an array, or one
// whose size contradicts its header (checked before unpacking). RESOURCE_EXHAUSTED: an array of more than `limit`
// bytes, or compressed arrays that unpack to more in total than DefaultUnpackedBound (engine/io/byte_stream.h) of
// the file.
StatusOr<std::vector<std::pair<std::string, Tensor>>> ParseNpz(std::string_view bytes,
                                                               uint64_t limit = uint64_t{1} << 40);

// Writes the arrays one after the other, uncompressed, with bfloat16 as float32, atomically and without holding the
// file in memory. INVALID_ARGUMENT: a duplicate or empty name, or a dtype unknown to NumPy.
Status WriteNpz(FileSystem& fs, const std::string& path, std::span<const std::pair<std::string, TensorView>> arrays);

}  // namespace rivulet
