#include "coordinator/joining_names.h"

#include <iterator>

namespace rivulet {

Status JoiningNames::Add(std::vector<Name> names) {
  std::shared_ptr<Batch> mine;
  {
    MutexLock lock(mutex_);
    if (gathering_ == nullptr) gathering_ = std::make_shared<Batch>();
    mine = gathering_;
    std::move(names.begin(), names.end(), std::back_inserter(mine->names));
    while (writing_ && !mine->done) changed_.Wait(mutex_);
    if (mine->done) return mine->status;
    gathering_ = nullptr;
    writing_ = true;
  }
  Status status = write_(mine->names);
  MutexLock lock(mutex_);
  mine->done = true;
  mine->status = status;
  writing_ = false;
  changed_.NotifyAll();
  return status;
}

}  // namespace rivulet
