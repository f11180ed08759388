// Store of bases (federated/weights/base.h) on one machine: those that a client's command line names, and a folder of
// downloads and aligned copies, each under its digest. All processes of a user may share the folder, Python's among
// them (python/rivulet/_base.py).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/weights/base.h"

namespace rivulet {

struct BaseStoreOptions {
  std::string folder = {};      // of downloads; "": DefaultFolder()
  int64_t megabytes = 100'000;  // of them together; the one that was not used for the longest time is removed first
  std::function<void(const std::string&)> note = nullptr;  // a sentence about a download; null: none
};

// Thread-safe. A process opens a base once, which reads all of it for its digest.
class BaseStore {
 public:
  explicit BaseStore(BaseStoreOptions options = {}) : options_(std::move(options)) {}
  // $XDG_CACHE_HOME/rivulet/bases, or ~/.cache/rivulet/bases. NOT_FOUND: neither is known.
  static StatusOr<std::string> DefaultFolder();

  // A copy that this machine has, or its aligned copy. FAILED_PRECONDITION: another base. Others as Base::Open.
  Status Give(const Digest& digest, const std::string& path);
  void Give(std::shared_ptr<const Base> base);

  // `base`, or an aligned copy of it where programs cannot read its tensors in place: published files rarely place
  // tensors at multiples of 64 bytes. The copy is the file that a download would leave in the folder. It is made once,
  // and a note says its size; processes map it, and none has the tensors in its own memory. `base` itself where too
  // little is at odd places to matter, or where no copy can be kept, and a note says why.
  std::shared_ptr<const Base> Aligned(std::shared_ptr<const Base> base);
  // Bytes of tensors at odd places from which an aligned copy is made.
  static constexpr int64_t kWorthACopy = 1 << 20;

  // What a download needs of its caller.
  struct Download {
    // Hands the base's bytes from `from` on to `sink`, which returns the error of a full disk. `most`: a base with more
    // bytes is refused. OUT_OF_RANGE: `from` lies beyond its end.
    std::function<Status(const Digest& digest, int64_t most, int64_t from,
                         const std::function<Status(std::span<const std::byte>)>& sink)>
        fetch = nullptr;                             // null: nothing is downloaded
    std::function<bool(int64_t ms)> wait = nullptr;  // waits; false: the client is stopped
  };
  // The base of a digest, whose file has at most `most` bytes: given, kept, or downloaded now. One process downloads it
  // and others wait. What an interrupted download has is kept, and the next one resumes there. FAILED_PRECONDITION: it
  // is not here, and `download` has no fetch or was refused; the folder has no room for it. DATA_LOSS: another base
  // came. CANCELLED. Others as the file system's. Other bases are given meanwhile.
  StatusOr<std::shared_ptr<const Base>> Of(const Digest& digest, int64_t most, const Download& download);

 private:
  // The folder, which is made if it is not there.
  StatusOr<std::string> Folder(const Digest& digest);
  // Alone among the processes that share the folder.
  StatusOr<std::unique_ptr<FileLock>> LockOf(const std::string& stem, const Digest& digest, const Download& download);
  StatusOr<std::shared_ptr<const Base>> Find(const Digest& digest, int64_t most, const Download& download);
  StatusOr<std::shared_ptr<const Base>> AlignedCopy(const Base& base);
  StatusOr<std::shared_ptr<const Base>> Kept(const std::string& path, const Digest& digest);
  StatusOr<std::shared_ptr<const Base>> Fetched(const std::string& stem, const Digest& digest, int64_t most,
                                                const Download& download);
  // Those that a killed process has left among `names` of `folder`. The lock of `digest` is held.
  void RemoveBrokenCopies(const std::string& folder, const Digest& digest, std::span<const std::string> names) const;
  Status MakeRoom(const std::string& folder, const Digest& digest, int64_t most);
  void Note(const std::string& sentence) const;

  const BaseStoreOptions options_;
  Mutex mutex_;
  CondVar found_;
  std::set<std::string> sought_ GUARDED_BY(mutex_);  // that a thread opens or downloads now, without the lock
  std::map<std::string, std::shared_ptr<const Base>> open_ GUARDED_BY(mutex_);  // by hexadecimal digest
};

}  // namespace rivulet
