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

// The arrays of a whole file, in its order, by their names without ".npy"; both of savez and savez_compressed. Names
// are as in the file, "dense/kernel" included; they are never used as paths. Errors of engine/io/zip.h and
// engine/io/npy.h with the array's name; DATA_LOSS: a name twice, a member that is no array, or one whose size is not
// what its header's shape needs (told before it is unpacked). RESOURCE_EXHAUSTED: an array of more than `limit` bytes,
// or compressed arrays that would unpack to more in all than DefaultUnpackedBound (engine/io/byte_stream.h) of the
// file.
StatusOr<std::vector<std::pair<std::string, Tensor>>> ParseNpz(std::string_view bytes,
                                                               uint64_t limit = uint64_t{1} << 40);

// Writes the arrays one after the other, uncompressed, bfloat16 as float32, and never holds the file in memory; whole
// or not at all. INVALID_ARGUMENT: a name twice or an empty one, a dtype that NumPy has not.
Status WriteNpz(FileSystem& fs, const std::string& path, std::span<const std::pair<std::string, TensorView>> arrays);

}  // namespace rivulet
