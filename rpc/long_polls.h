// Long polls: polls whose answer waits for news, so that idle clients call rarely and get work at once.
//
// A poll without an answer is asked again at each news for its name, until it has an answer or its time is up. News
// during an ask causes one more ask, so none is lost. A waiting poll costs its request's memory and no thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/base/executor.h"
#include "engine/base/mutex.h"

namespace rivulet {

// Set of open long polls. Thread-safe.
class LongPolls {
 public:
  // Polls are asked again on `executor`, which must outlive this and finish all its work before this is destroyed.
  explicit LongPolls(Executor& executor) : executor_(executor) {}

  // Asks for a poll's answer and sends it; false: there is none yet. If `last` is true, it is sent in any
  // case.
  using Ask = std::function<bool(bool last)>;
  // Asks on the calling thread, and again at news for at most `time`; never twice at the same time.
  void Hold(const std::string& name, std::chrono::milliseconds time, Ask ask);
  // Notes news for the polls of `name`; "": for all. They are asked on the executor.
  void News(const std::string& name);
  // Asks every poll a last time; none is held any more.
  void Close();

 private:
  struct Held {
    std::string name;
    Ask ask;
    bool asking = true;  // on some thread, or soon
    bool news = false;   // since the last ask
    bool last = false;
  };

  void Wake(const std::shared_ptr<Held>& held) REQUIRES(mutex_);
  void AskOn(const std::shared_ptr<Held>& held) EXCLUDES(mutex_);

  Executor& executor_;
  Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::multimap<std::string, std::shared_ptr<Held>> polls_ GUARDED_BY(mutex_);  // by name
};

}  // namespace rivulet
