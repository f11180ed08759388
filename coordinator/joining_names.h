// New names with rows under way. A disk may need long for a row, and another process's lock longer. So the first caller
// writes the rows of all waiting names, without a lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

// Batches of joining names. Thread-safe. Only WhileNoneIsWritten holds its lock while it calls other code.
class JoiningNames {
 public:
  // A name, and the aggregator through which it is reached; "": none.
  using Name = std::pair<std::string, std::string>;
  // Writes the rows of a batch and makes its names members; called without the lock, one batch at a time.
  using Write = std::function<Status(const std::vector<Name>& names)>;
  explicit JoiningNames(Write write) : write_(std::move(write)) {}

  // Returns when the rows of these names are written, with the error of their batch.
  Status Add(std::vector<Name> names) EXCLUDES(mutex_);
  // Runs `act` while no row is being written.
  template <typename Act>
  void WhileNoneIsWritten(const Act& act) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (writing_) changed_.Wait(mutex_);
    act();
  }

 private:
  struct Batch {
    std::vector<Name> names;
    bool done = false;
    Status status;
  };
  const Write write_;
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Batch> gathering_ GUARDED_BY(mutex_);  // null: no caller waits beside the batch that is being written
  bool writing_ GUARDED_BY(mutex_) = false;
};

}  // namespace rivulet
