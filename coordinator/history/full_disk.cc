#include "coordinator/history/full_disk.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>

#include "engine/base/file_system.h"

namespace rivulet {
namespace {

// The system's last error on the database's file or on its journal or log; 0 if there is none.
int LastError(sqlite3* db) {
  int error = 0;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &error) == SQLITE_OK && error != 0) return error;
  sqlite3_file* journal = nullptr;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &journal) == SQLITE_OK && journal != nullptr &&
      journal->pMethods != nullptr) {
    journal->pMethods->xFileControl(journal, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

bool MeansFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

// SQLite reports a full disk only for a page without space. For a quota, the log's shared memory, a sync or a
// truncation it reports "I/O error". A limit on a file's size counts as a full disk.
bool IsFullDisk(sqlite3* db, int code, const std::string& path) {
  if ((code & 0xFF) == SQLITE_FULL) return true;
  if ((code & 0xFF) != SQLITE_IOERR && (code & 0xFF) != SQLITE_CANTOPEN) return false;
  if (MeansFull(sqlite3_system_errno(db)) || MeansFull(LastError(db))) return true;
  // Another call may have succeeded since and cleared errno: then the remaining free space decides.
  const bool writes = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_TRUNCATE ||
                      code == SQLITE_IOERR_SHMSIZE || code == SQLITE_IOERR_SHMMAP || code == SQLITE_IOERR_SHMOPEN;
  constexpr uint64_t kNone = 64 << 10;
  struct statvfs disk;
  if (writes && statvfs(FolderOf(path).c_str(), &disk) == 0 && uint64_t{disk.f_bavail} * disk.f_frsize < kNone)
    return true;
  rlimit limit{};
  return writes && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace rivulet
