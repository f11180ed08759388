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
  std::string from;        // a folder of classes; or one with the folders train/ and perhaps test/, which hold classes
  std::string out;         // the folder to write to, made if missing
  bool grey = false;       // one channel instead of three
  int64_t test_every = 0;  // every so manyth image of a class is for the test; 0: none
};

struct ImageFolderCounts {
  int64_t train = 0, test = 0;
  int64_t width = 0, height = 0;
  std::vector<std::string> classes;  // folders in byte order: label i is classes[i]
};

// Writes train.tfrecord and, where there are images for it, test.tfrecord with the features "image" (bytes[height ×
// width × channels]) and "label" (int64), class by class, files in order of their names; and classes.txt, a line a
// class. Files with other endings are passed over, as are names that begin with '.'. All files appear complete, or none
// is changed.
//
// NOT_FOUND: no folders of images. INVALID_ARGUMENT: a class of the test that has no images to learn from, images for
// the test asked for twice. DATA_LOSS, by path: an image that cannot be read (engine/datasets/image_file.h), or of
// another size than the first.
StatusOr<ImageFolderCounts> ImportImageFolder(FileSystem& fs, const ImageFolderOptions& options,
                                              const DataProgress& progress = {});

}  // namespace rivulet
