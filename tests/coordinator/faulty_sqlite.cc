#include "faulty_sqlite.h"

#include <sqlite3.h>

#include <cstring>
#include <limits>

namespace rivulet {
namespace {

std::function<bool(const std::string&)>& Hook() {
  static std::function<bool(const std::string&)> hook;
  return hook;
}
std::function<void(const std::string&, int64_t, int64_t)>& Watcher() {
  static std::function<void(const std::string&, int64_t, int64_t)> watcher;
  return watcher;
}
sqlite3_vfs* real_vfs = nullptr;

// SQLite allocates szOsFile bytes: ours, then the real file's.
struct HookedFile {
  sqlite3_file base;
  const char* name;
};
sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<HookedFile*>(file) + 1);
}
bool Ask(sqlite3_file* file, const char* what) {
  const char* name = reinterpret_cast<HookedFile*>(file)->name;
  return !Hook() || Hook()(std::string(what) + " " + (name == nullptr ? "temporary" : name));
}

void Tell(sqlite3_file* file, int64_t from, int64_t to) {
  const char* name = reinterpret_cast<HookedFile*>(file)->name;
  if (Watcher() && name != nullptr) Watcher()(name, from, to);
}

int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
int Read(sqlite3_file* f, void* p, int n, sqlite3_int64 o) { return Real(f)->pMethods->xRead(Real(f), p, n, o); }
int Write(sqlite3_file* f, const void* p, int n, sqlite3_int64 o) {
  if (!Ask(f, "sqlite-write")) return SQLITE_FULL;
  Tell(f, o, o + n);
  return Real(f)->pMethods->xWrite(Real(f), p, n, o);
}
int Truncate(sqlite3_file* f, sqlite3_int64 n) {
  Tell(f, n, std::numeric_limits<int64_t>::max());
  return Real(f)->pMethods->xTruncate(Real(f), n);
}
int Sync(sqlite3_file* f, int flags) {
  if (!Ask(f, "sqlite-sync")) return SQLITE_FULL;
  const int code = Real(f)->pMethods->xSync(Real(f), flags);
  return Ask(f, "sqlite-synced") ? code : SQLITE_FULL;
}
int FileSize(sqlite3_file* f, sqlite3_int64* n) { return Real(f)->pMethods->xFileSize(Real(f), n); }
int Lock(sqlite3_file* f, int l) { return Real(f)->pMethods->xLock(Real(f), l); }
int Unlock(sqlite3_file* f, int l) { return Real(f)->pMethods->xUnlock(Real(f), l); }
int CheckReservedLock(sqlite3_file* f, int* out) { return Real(f)->pMethods->xCheckReservedLock(Real(f), out); }
int FileControl(sqlite3_file* f, int op, void* arg) { return Real(f)->pMethods->xFileControl(Real(f), op, arg); }
int SectorSize(sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); }
int DeviceCharacteristics(sqlite3_file* f) { return Real(f)->pMethods->xDeviceCharacteristics(Real(f)); }
int ShmMap(sqlite3_file* f, int a, int b, int c, void volatile** d) {
  return Real(f)->pMethods->xShmMap(Real(f), a, b, c, d);
}
int ShmLock(sqlite3_file* f, int a, int b, int c) { return Real(f)->pMethods->xShmLock(Real(f), a, b, c); }
void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
int ShmUnmap(sqlite3_file* f, int d) { return Real(f)->pMethods->xShmUnmap(Real(f), d); }

const sqlite3_io_methods kMethods = {2,
                                     Close,
                                     Read,
                                     Write,
                                     Truncate,
                                     Sync,
                                     FileSize,
                                     Lock,
                                     Unlock,
                                     CheckReservedLock,
                                     FileControl,
                                     SectorSize,
                                     DeviceCharacteristics,
                                     ShmMap,
                                     ShmLock,
                                     ShmBarrier,
                                     ShmUnmap,
                                     nullptr,
                                     nullptr};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto* hooked = reinterpret_cast<HookedFile*>(file);
  hooked->base.pMethods = nullptr;
  hooked->name = name;
  const int code = real_vfs->xOpen(real_vfs, name, Real(file), flags, out_flags);
  if (code == SQLITE_OK) hooked->base.pMethods = &kMethods;
  return code;
}

}  // namespace

void WatchSqliteWrites(std::function<void(const std::string&, int64_t, int64_t)> before) {
  Watcher() = std::move(before);
}

void InstallFaultySqlite(std::function<bool(const std::string&)> at) {
  Hook() = std::move(at);
  if (real_vfs != nullptr) return;
  real_vfs = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs vfs = *real_vfs;
  vfs.pNext = nullptr;
  vfs.zName = "hooked";
  vfs.szOsFile = static_cast<int>(sizeof(HookedFile)) + real_vfs->szOsFile;
  vfs.xOpen = Open;
  sqlite3_vfs_register(&vfs, 1);
}

}  // namespace rivulet
