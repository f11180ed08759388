// Live page of a run in this process, with news between the rows of its history: joining clients, assigned tasks,
// received updates, and a round's figures when it closes.
//
// The run only stores its news here, which takes microseconds and no memory per viewer. Each browser has a stream that
// sends the page's present state after a change, at most twenty times a second. A slow browser gets fewer of these
// states and never an old one, and nothing is queued for it.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"
#include "http/http_server.h"
#include "inspect/overview.h"

namespace rivulet {

// State of one run for its live page. Thread-safe.
class LiveRun {
 public:
  explicit LiveRun(int64_t rounds) : rounds_wanted_(rounds) {}

  // Adds its handlers to those of `observer`; must outlive the coordinator.
  void Observe(CoordinatorObserver& observer);
  // Call it once the run has an id. `before`: the curves of earlier rounds, if it is resumed.
  void Begin(std::string run_id, std::vector<Curve> before);
  // The run has ended, as described by `sentence`. Gives streams up to a second to send it.
  void End(const std::string& sentence);

  // A stream for one browser; this must outlive it.
  std::unique_ptr<HttpStream> Open();
  std::string run_id() const;
  // The part of the run's page that the feed updates.
  std::string Panel();

 private:
  friend class LiveStream;
  using SteadyClock = std::chrono::steady_clock;
  // Content of a page by the ids of its places, and the state's number.
  struct Shown {
    uint64_t change = 0;
    bool ended = false;
    int64_t closed_unix_ms = 0;  // time of the end of its newest closed round; 0: none
    std::map<std::string, std::string> places;
  };

  void Changed() REQUIRES(mutex_);
  void AddPoints(int64_t round, const std::map<std::string, double>& values) REQUIRES(mutex_);
  void Round(const RoundReport& report);
  std::string StateHtml() const REQUIRES(mutex_);
  std::string RoundsHtml() const REQUIRES(mutex_);
  std::string LogHtml() const REQUIRES(mutex_);
  // The newest state, computed at the first request.
  std::shared_ptr<const Shown> Show();
  // Blocks until the state differs from `seen`, or the run has ended; false: neither happened within `patience`.
  bool AwaitChange(uint64_t seen, std::chrono::milliseconds patience);

  const int64_t rounds_wanted_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t change_ GUARDED_BY(mutex_) = 1;
  uint64_t curves_change_ GUARDED_BY(mutex_) = 1;
  std::string run_id_ GUARDED_BY(mutex_), end_ GUARDED_BY(mutex_);
  int64_t streams_ GUARDED_BY(mutex_) = 0;
  int64_t round_ GUARDED_BY(mutex_) = 0, folded_ GUARDED_BY(mutex_) = 0, selected_ GUARDED_BY(mutex_) = 0;
  int64_t committed_ GUARDED_BY(mutex_) = 0, closed_unix_ms_ GUARDED_BY(mutex_) = 0;
  std::vector<std::string> offered_ GUARDED_BY(mutex_);  // the first selected clients of this round
  int64_t offers_ GUARDED_BY(mutex_) = 0;
  std::deque<RoundReport> newest_ GUARDED_BY(mutex_);  // newest first
  std::deque<EventRow> log_ GUARDED_BY(mutex_);        // newest first
  std::vector<Curve> curves_ GUARDED_BY(mutex_);
  Mutex showing_;  // taken before mutex_
  std::shared_ptr<const Shown> shown_ GUARDED_BY(showing_);
  uint64_t shown_curves_ GUARDED_BY(showing_) = 0;
};

}  // namespace rivulet
