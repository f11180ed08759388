// Output files of an importer: train.tfrecord and optionally test.tfrecord in one folder.
#pragma once

#include <memory>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/tfrecord.h"
#include "engine/io/new_folder.h"

namespace rivulet {

// Two writers that publish together. Not thread-safe. Files under the final names change only in Publish. Without it,
// temporary files and a folder created for them are removed.
class NewDataset {
 public:
  // Creates `folder` if it is missing. Errors are the file system's.
  static StatusOr<std::unique_ptr<NewDataset>> Create(FileSystem& fs, const std::string& folder, bool with_test);
  RecordWriter& train() { return *train_; }
  RecordWriter& test() { return *test_; }  // only if created with_test
  // Returns the writer for row `row` if every `test_every`-th row is a test row (0: none).
  RecordWriter& at(int64_t row, int64_t test_every) {
    return test_every > 0 && row % test_every == test_every - 1 ? *test_ : *train_;
  }
  // Completes both files, then publishes the test file and last the training file.
  Status Publish();

 private:
  NewDataset() = default;
  std::unique_ptr<NewFolder> folder_;  // outlives the writers in it
  std::unique_ptr<RecordWriter> train_, test_;
};

}  // namespace rivulet
