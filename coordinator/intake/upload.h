// One task's upload under way: its writer, received bytes, identity and outcome.
//
// A client may reconnect while its dead connection still looks alive, and two processes may have one name. So each
// Submit takes the upload over, and the earlier writer is asked to retry later. That is not a failure of the task.
//
// Thread-safe. Its lock is never held over I/O: a call that opens, writes or frees a file first moves the bytes out. So
// Cancel, called under the owner's lock, never waits for a disk.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/intake/staging.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {

class Upload {
 public:
  // `staging` must outlive it.
  explicit Upload(Staging& staging) : staging_(staging) {}

  // Makes the caller the only writer of its submission. Incomplete blocks are dropped, and all bytes if the length
  // differs. Waits for a write by the previous writer. UNAVAILABLE: it is being checked, or a newer caller has taken it
  // over. ABORTED: cancelled, with the reason. RESOURCE_EXHAUSTED: no room for it.
  struct Turn {
    int64_t writer = 0;
    std::vector<uint32_t> crcs;  // of the staged blocks
  };
  StatusOr<Turn> TakeOver(const Submission& submission);

  // Continues at `offset`. UNAVAILABLE: taken over. ABORTED: cancelled, with the reason. INVALID_ARGUMENT: no staged
  // block ends there.
  Status Resume(int64_t writer, int64_t offset);
  // Appends these bytes in order. Errors as Resume; OUT_OF_RANGE: more than announced. RESOURCE_EXHAUSTED: no room;
  // bytes that were written before stay.
  Status WritePieces(int64_t writer, std::span<const std::span<const std::byte>> pieces);
  Status Write(int64_t writer, std::span<const std::byte> chunk) { return WritePieces(writer, {&chunk, 1}); }
  // The whole upload, valid until Release. After OK no writer and no Cancel touches it. Errors as Resume;
  // INVALID_ARGUMENT: bytes are missing. DATA_LOSS: the staged bytes have another identity; they are dropped.
  struct Whole {
    std::span<const std::byte> bytes;
    Digest identity;
    Submission submission;  // as last announced
  };
  StatusOr<Whole> Complete(int64_t writer, const Digest& identity);
  // Frees the bytes that Complete returned.
  void Release();
  // Cancels it, because its task was resolved without it. Gives the staged bytes, for the caller to free; null if
  // Complete has returned them, or if a running call uses them, which then frees them.
  std::unique_ptr<StagedBytes> Cancel(const std::string& reason);

 private:
  struct Bytes {
    std::unique_ptr<StagedBytes> staged;  // null: none
    BlockCrcs crcs;                       // of staged
    void Truncate(int64_t blocks);
  };
  Status CheckTurn(int64_t writer) const REQUIRES(mutex_);
  // Ends work on `bytes` without the lock: they are staged again, unless the upload was cancelled meanwhile.
  Status PutBack(Bytes bytes) EXCLUDES(mutex_);

  Staging& staging_;
  Mutex mutex_;
  CondVar idle_;
  Submission submission_ GUARDED_BY(mutex_);
  int64_t writer_ GUARDED_BY(mutex_) = 0;
  bool complete_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool at_work_ GUARDED_BY(mutex_) = false;  // a running call uses bytes_
  std::string reason_ GUARDED_BY(mutex_);
  Bytes bytes_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
