#include "inspect/run_status.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "coordinator/history/history.h"
#include "engine/base/file_system.h"

namespace rivulet {

// Checks with a shared lock that is released at once and never waited for. A process that takes the run over at
// that moment is refused, which is the only harm. If the file cannot be opened for reading, the row's status
// applies.
std::string StatusNow(const std::string& real_path, const std::string& run_id, const std::string& status) {
  if (status != "running") return status;
  const std::string lock = JoinPath(FolderOf(real_path), JoinPath(History::ModelsFolder(real_path, run_id), "lock"));
  const int file = open(lock.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? "interrupted" : status;
  const bool held = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return held ? status : "interrupted";
}

}  // namespace rivulet
