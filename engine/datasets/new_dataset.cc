#include "engine/datasets/new_dataset.h"

namespace rivulet {

StatusOr<std::unique_ptr<NewDataset>> NewDataset::Create(FileSystem& fs, const std::string& folder, bool with_test) {
  std::unique_ptr<NewDataset> files(new NewDataset);
  RIVULET_ASSIGN_OR_RETURN(files->folder_, NewFolder::Create(fs, folder));
  RIVULET_ASSIGN_OR_RETURN(files->train_, RecordWriter::Create(fs, JoinPath(folder, "train.tfrecord")));
  if (with_test) {
    RIVULET_ASSIGN_OR_RETURN(files->test_, RecordWriter::Create(fs, JoinPath(folder, "test.tfrecord")));
  }
  return files;
}

Status NewDataset::Publish() {
  RIVULET_RETURN_IF_ERROR(train_->Finish());
  if (test_ != nullptr) {
    RIVULET_RETURN_IF_ERROR(test_->Finish());
    RIVULET_RETURN_IF_ERROR(test_->Publish(false));
  }
  RIVULET_RETURN_IF_ERROR(train_->Publish());
  folder_->Keep();
  return absl::OkStatus();
}

}  // namespace rivulet
