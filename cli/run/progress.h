// Progress of a run on stderr. A terminal shows a line per finished round and one updating line below them; otherwise
// there is a line per round. With --progress json it is an object per line, with --quiet only errors.
//
//   round 11/50 accuracy 0.9698  test loss 0.1071
//   round 12/50 [#####---------------] accuracy 0.9712  test loss 0.1034  ETA 34 s
//
// and, if devices use virtual time, the elapsed virtual time before the remaining time: "virtual 3 h 12 min  ETA 34 s".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"

namespace rivulet {

// "round 3, measured by 10 clients: accuracy 0.9312 (0.8800 to 0.9700), loss 0.2310 (0.1500 to 0.4100)": over all their
// examples, and from p10 to p90 of the clients; or the reason why it was not measured.
std::string EvaluationLine(const EvaluationReport& report);

// State of a running run, as one line. Not thread-safe.
class RoundTracker {
 public:
  explicit RoundTracker(int64_t rounds) : rounds_(rounds), start_(Clock::now()) {}
  void Round(const RoundReport& committed);
  // `within`: the finished fraction of the round after the last one, 0 to 1. `columns`: the most
  // characters; the least important parts are left out first; 0: no limit. `more` is left out before all
  // others.
  std::string Line(int64_t round, double within, size_t columns = 0, const std::string& more = "") const;
  // The results of the last round, without a bar; at most so many characters.
  std::string Measured(size_t columns) const;
  // The same as a JSON object, for --progress json.
  std::string Json(int64_t round) const;
  int64_t round() const { return round_; }  // last committed; 0 for none
  int64_t rounds() const { return rounds_; }

 private:
  using Clock = std::chrono::steady_clock;
  double Elapsed() const;  // seconds
  std::string Head(int64_t round) const;
  std::string Accuracy() const;
  std::string Loss() const;
  std::optional<double> SecondsLeft(double within) const;

  const int64_t rounds_;
  const Clock::time_point start_;
  int64_t round_ = 0, rounds_seen_ = 0;
  std::optional<double> accuracy_, loss_, virtual_seconds_;
  bool tested_ = false;  // loss_ is of the test set, not of training
  std::string others_;   // measures on other sets than the test set
};

// Printer of a run's progress. Thread-safe.
class RoundProgress {
 public:
  explicit RoundProgress(int64_t rounds) : terminal_(StderrIsTerminal()), tracker_(rounds) {}
  ~RoundProgress() { Finish(); }

  void Folded(int64_t round, int64_t folded, int64_t selected);
  void Round(const RoundReport& report);
  void Evaluation(const EvaluationReport& report);
  // Prints a message that stays, above the updating line.
  void Note(const std::string& sentence);
  // Ends the updating line; later calls begin a new one.
  void Finish();
  // Prints a line with its time, for operators. Of one round's losses some are named, and the others counted.
  void Event(const EventRow& event);
  void Observe(CoordinatorObserver& observer);  // must outlive the coordinator

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(const std::string& line) REQUIRES(mutex_);
  void TellLost(const RoundReport& report) REQUIRES(mutex_);
  void Clear() REQUIRES(mutex_);
  void Say(const std::string& sentence) REQUIRES(mutex_);

  const bool terminal_;
  Mutex mutex_;
  RoundTracker tracker_ GUARDED_BY(mutex_);
  Clock::time_point drawn_ GUARDED_BY(mutex_), stayed_ GUARDED_BY(mutex_);
  std::optional<int64_t> losing_round_ GUARDED_BY(mutex_);
  int64_t losses_ GUARDED_BY(mutex_) = 0;  // of that round, so far
  bool hears_events_ GUARDED_BY(mutex_) = false;
  std::set<std::string> told_lost_ GUARDED_BY(mutex_);  // reported without events
  bool open_ GUARDED_BY(mutex_) = false;                // an unfinished line is on the terminal
};

}  // namespace rivulet
