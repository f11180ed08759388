#include "client/agent/answered_tasks.h"

#include "engine/base/sha256.h"

namespace rivulet {

// Named by digest: a task's name is the coordinator's text.
std::string AnsweredTasks::PathOf(const TaskId& task) const { return JoinPath(folder_, Sha256Of(task).Hex()); }

bool AnsweredTasks::Contains(const TaskId& task) const { return fs_.Exists(PathOf(task)); }

Status AnsweredTasks::Add(const TaskId& task) {
  RIVULET_RETURN_IF_ERROR(fs_.CreateFolders(folder_));
  RIVULET_ASSIGN_OR_RETURN(const auto file, fs_.Create(PathOf(task)));
  RIVULET_RETURN_IF_ERROR(file->Sync());
  RIVULET_RETURN_IF_ERROR(file->Close());
  RIVULET_RETURN_IF_ERROR(fs_.SyncFolder(folder_));
  return fs_.SyncFolder(FolderOf(folder_));
}

}  // namespace rivulet
