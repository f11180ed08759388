// Queue of uploads and downloads, of which only a few are under way at a time. Each active one costs memory, whether it
// is served or not: data sent ahead of its reader, the current message, and staging space. A few at full speed finish
// as soon as many side by side. So the others wait until one has ended, and take no memory meanwhile.
//
//   Enter ──→ [its turn] ──→ (Waiting Moved)* ──→ Leave
//
// A slow peer must not block others from an idle server. So a transfer keeps its place only while the server limits it.
// If its peer is slower than `bytes_per_second` allows for its bytes, the transfer gives up the place until the peer is
// faster again. Data from such a peer is read as it arrives, and so takes little memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "engine/base/available_cores.h"
#include "engine/base/mutex.h"

namespace rivulet {

struct TransferLimits {
  int places = std::clamp(AvailableCores(), 2, 4);  // more than the number of cores gain nothing
  // For short transfers, beside the others: such a transfer mostly waits for its peer's next message, and all of them
  // together take no more memory than one message of a long transfer.
  int short_places = 16;
  int64_t short_bytes = int64_t{64} << 10;
  int64_t bytes_per_second = 50'000'000;
  std::chrono::milliseconds pause = std::chrono::milliseconds(50);  // a peer's pause that costs it no place
};

// Queue of transfers. Thread-safe. The caller gives each transfer a number.
class TransferPlaces {
 public:
  TransferPlaces(int places, const TransferLimits& limits);
  ~TransferPlaces();  // it must be empty

  // `go` is called once, in the order of entering, when there is a place: at once, or on another thread. It must return
  // at once, and call nothing of this class.
  void Enter(uint64_t transfer, std::function<void()> go);
  // Ends the wait of a transfer that is needed no more: if it is queued, `go` is called now, and it takes no place.
  void Hurry(uint64_t transfer);
  // Call these around every wait for the peer, with the moved bytes; call Moved also for bytes without a wait. They do
  // nothing before its turn.
  void Waiting(uint64_t transfer);
  void Moved(uint64_t transfer, int64_t bytes);
  // Whether it has its turn, and its peer has kept up with the server since: sent data does not pile up.
  bool KeepsUp(uint64_t transfer);
  // Ends a transfer that has had its turn. Does nothing for one that has not entered.
  void Leave(uint64_t transfer);

 private:
  using Clock = std::chrono::steady_clock;
  struct Moving {
    Clock::duration late = {};                           // wait for its peer, less the time that its bytes explain
    Clock::time_point since = Clock::time_point::max();  // begin of the present wait; max() while the server works
  };
  void Admit() REQUIRES(mutex_);
  void Watch();

  const int places_;
  const TransferLimits limits_;
  Mutex mutex_;
  CondVar queued_;
  std::map<uint64_t, Moving> moving_ GUARDED_BY(mutex_);
  std::deque<std::pair<uint64_t, std::function<void()>>> queue_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rivulet
