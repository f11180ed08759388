// Output files of an importer: train.tfrecord and optionally test.tfrecord in one folder.
#pragma once

#include <memory>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/tfrecord.h"
#include "engine/io/new_folder.h"

namespace rivulet {

// Not thread-safe. Until Publish nothing under the files' names is changed; without it nothing stays behind, and a
// folder that was made for them goes again.
class NewDataset {
 public:
  // Makes `folder` where it is missing. Errors are the file system's.
  static StatusOr<std::unique_ptr<NewDataset>> Create(FileSystem& fs, const std::string& folder, bool with_test);
  RecordWriter& train() { return *train_; }
  RecordWriter& test() { return *test_; }  // only with one
  // Row `row` of data of which every `test_every`th is for the test (0: none).
  RecordWriter& at(int64_t row, int64_t test_every) {
    return test_every > 0 && row % test_every == test_every - 1 ? *test_ : *train_;
  }
  // Both files complete, then both under their names, the training file last.
  Status Publish();

 private:
  NewDataset() = default;
  std::unique_ptr<NewFolder> folder_;  // outlives the writers in it
  std::unique_ptr<RecordWriter> train_, test_;
};

}  // namespace rivulet
