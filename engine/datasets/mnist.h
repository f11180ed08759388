// MNIST in its original files: IDX arrays of unsigned bytes (magic number, sizes as 32-bit big-endian integers, data),
// raw or packed with GZIP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct IdxArray {
  std::vector<uint32_t> dims;
  std::string data;  // row-major
};

// Reads an IDX file of unsigned bytes with `rank` dimensions. NOT_FOUND. DATA_LOSS: a wrong magic number, a length that
// contradicts the sizes, a damaged GZIP stream. INVALID_ARGUMENT: not a regular file. Messages begin with the path.
StatusOr<IdxArray> ReadIdx(const std::string& path, size_t rank);

struct MnistCounts {
  int64_t train = 0, test = 0;
};

// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte from `from`
// (each raw or .gz; also named train-images.idx3-ubyte). Writes train.tfrecord and test.tfrecord to `out`, created if
// missing, with the features image (bytes[784]) and label (int64) in file order. Either both are published complete, or
// neither is changed; a folder created for them is removed on errors. Errors as above; also DATA_LOSS: no images,
// images that are not 28×28, different numbers of labels and images, a label above 9.
StatusOr<MnistCounts> ImportMnist(FileSystem& fs, const std::string& from, const std::string& out,
                                  const DataProgress& progress = {});

}  // namespace rivulet
