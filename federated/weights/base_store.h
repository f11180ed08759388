// Store of bases (federated/weights/base.h) on one machine: bases named on a client's command line, and a folder of
// downloads and aligned copies, each under its digest. All processes of a user may share the folder, including Python's
// (python/rivulet/_base.py).
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
  std::string folder = {};      // for downloads; "": DefaultFolder()
  int64_t megabytes = 100'000;  // limit of all downloads together; the least recently used is removed first
  std::function<void(const std::string&)> note = nullptr;  // receives a sentence about each download; may be null
};

// Thread-safe. A process opens each base once, which reads all of it for its digest.
class BaseStore {
 public:
  explicit BaseStore(BaseStoreOptions options = {}) : options_(std::move(options)) {}
  // $XDG_CACHE_HOME/rivulet/bases, or ~/.cache/rivulet/bases. NOT_FOUND: neither variable is set.
  static StatusOr<std::string> DefaultFolder();

  // Adds a copy on this machine, aligned if needed. FAILED_PRECONDITION: another base. Other errors as Base::Open.
  Status Give(const Digest& digest, const std::string& path);
  void Give(std::shared_ptr<const Base> base);

  // Returns `base`, or an aligned copy of it if programs cannot read its tensors in place: published files rarely place
  // tensors at multiples of 64 bytes. The copy is the file that a download would leave in the folder. It is made once,
  // and a note reports its size; processes map it, and none holds the tensors in its own memory. Returns `base` itself
  // if less than kWorthACopy is misaligned, or if no copy can be stored; a note then gives the reason.
  std::shared_ptr<const Base> Aligned(std::shared_ptr<const Base> base);
  // Bytes of misaligned tensors from which an aligned copy is worth making.
  static constexpr int64_t kWorthACopy = 1 << 20;

  // The caller's functions for a download.
  struct Download {
    // Passes the base's bytes from `from` on to `sink`, which returns an error if the disk is full. A base of more than
    // `most` bytes is refused. OUT_OF_RANGE: `from` is beyond its end.
    std::function<Status(const Digest& digest, int64_t most, int64_t from,
                         const std::function<Status(std::span<const std::byte>)>& sink)>
        fetch = nullptr;                             // null: nothing is downloaded
    std::function<bool(int64_t ms)> wait = nullptr;  // waits; returns false if the client is being stopped
  };
  // Returns the base with this digest, whose file has at most `most` bytes: added, stored, or downloaded now. One
  // process downloads, and the others wait. An interrupted download is resumed by the next one. FAILED_PRECONDITION:
  // the base is not here, and there is no fetch or it was refused; or the folder has no room. DATA_LOSS: another base
  // was received. CANCELLED: stopped. Others as the file system's. Calls for other bases are not blocked.
  StatusOr<std::shared_ptr<const Base>> Of(const Digest& digest, int64_t most, const Download& download);

 private:
  // Returns the folder; creates it if needed.
  StatusOr<std::string> Folder(const Digest& digest);
  // Takes the lock that excludes all other processes that share the folder.
  StatusOr<std::unique_ptr<FileLock>> LockOf(const std::string& stem, const Digest& digest, const Download& download);
  StatusOr<std::shared_ptr<const Base>> Find(const Digest& digest, int64_t most, const Download& download);
  StatusOr<std::shared_ptr<const Base>> AlignedCopy(const Base& base);
  StatusOr<std::shared_ptr<const Base>> Kept(const std::string& path, const Digest& digest);
  StatusOr<std::shared_ptr<const Base>> Fetched(const std::string& stem, const Digest& digest, int64_t most,
                                                const Download& download);
  // Removes files among `names` of `folder` that a killed process left. The lock of `digest` must be held.
  void RemoveBrokenCopies(const std::string& folder, const Digest& digest, std::span<const std::string> names) const;
  Status MakeRoom(const std::string& folder, const Digest& digest, int64_t most);
  void Note(const std::string& sentence) const;

  const BaseStoreOptions options_;
  Mutex mutex_;
  CondVar found_;
  std::set<std::string> sought_ GUARDED_BY(mutex_);  // being opened or downloaded, without the lock
  std::map<std::string, std::shared_ptr<const Base>> open_ GUARDED_BY(mutex_);  // by hexadecimal digest
};

}  // namespace rivulet
