// Labels that follow a run: whenever a newer version of it is durable, its label is pointed there, unless a gate holds
// it back. One thread; each step is one `rivulet model point`.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "serving/point.h"

namespace rivulet {

struct FollowGates {
  std::map<std::string, double> least;  // lower bounds of metrics of the version's round
  std::optional<double> max_drop;       // of the comparison metric, from the present target's
};

struct FollowedRun {
  std::string db, name, label;
  std::string run;  // RUN[:latest|:best]
};

// Parses "NAME[=LABEL]=RUN[:latest|:best]" of a command. INVALID_ARGUMENT: another form.
StatusOr<FollowedRun> FollowOf(const std::string& db, const std::string& text);

class RunFollower {
 public:
  // `tell` receives each step, and once each version that a gate holds back; on the follower's thread.
  RunFollower(std::vector<FollowedRun> runs, FollowGates gates, ServedPlanOptions plan, std::string author,
              std::function<void(const std::string& sentence)> tell);
  ~RunFollower();
  // Points each label now, so that a server finds it. Call it before Start.
  Status PointAll();
  void Start();

 private:
  Status PointOne(FollowedRun& run);
  void Watch();

  std::vector<FollowedRun> runs_;
  const FollowGates gates_;
  const ServedPlanOptions plan_;
  const std::string author_;
  const std::function<void(const std::string&)> tell_;
  std::map<std::string, std::string> last_;  // by name and label: the last message
  Mutex mutex_;
  CondVar closing_changed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rivulet
