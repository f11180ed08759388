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

// Thread-safe.
class LongPolls {
 public:
  // Polls are asked again on `executor`, which must outlive this and run all that it was given before this goes.
  explicit LongPolls(Executor& executor) : executor_(executor) {}

  // Asks one poll and answers it; false: there was nothing to tell, and it is not answered. When it is the `last` time
  // it is answered whatever there is to tell.
  using Ask = std::function<bool(bool last)>;
  // Asks on the calling thread, and again as said above for at most `time`; never twice at once.
  void Hold(const std::string& name, std::chrono::milliseconds time, Ask ask);
  // There is news for the polls of `name`; "": for all. Only notes it: they are asked on the executor.
  void News(const std::string& name);
  // Every poll is asked a last time, and none is held from now on.
  void Close();

 private:
  struct Held {
    std::string name;
    Ask ask;
    bool asking = true;  // on some thread, or about to be
    bool news = false;   // since it was asked last
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
