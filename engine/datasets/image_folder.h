// Import of folders of images, one folder per class: CLASS/*.png, *.jpg.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

struct ImageFolderOptions {
  std::string from;        // a folder of classes; or one with train/ and optionally test/, which hold classes
  std::string out;         // output folder, created if missing
  bool grey = false;       // one channel instead of three
  int64_t test_every = 0;  // every test_every-th image of a class is for the test; 0: none
};

struct ImageFolderCounts {
  int64_t train = 0, test = 0;
  int64_t width = 0, height = 0;
  std::vector<std::string> classes;  // folder names in byte order: label i is classes[i]
};

// Writes train.tfrecord and, if there are test images, test.tfrecord with the features "image" (bytes[height × width ×
// channels]) and "label" (int64), class by class, files in order of their names. Also writes classes.txt, one line per
// class. Files with other endings and names that begin with '.' are skipped. Either all files are published complete,
// or none is changed.
//
// NOT_FOUND: no folders of images. INVALID_ARGUMENT: a test class without training images, or test images requested in
// both ways. DATA_LOSS, by path: an image that cannot be read (engine/datasets/image_file.h), or whose size differs
// from the first.
StatusOr<ImageFolderCounts> ImportImageFolder(FileSystem& fs, const ImageFolderOptions& options,
                                              const DataProgress& progress = {});

}  // namespace rivulet
