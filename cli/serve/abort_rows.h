// Rows for canaries that a server has stopped: each is written as soon as a short transaction succeeds, so that other
// servers and later ones see it too. One thread, which never blocks on other writers.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/mutex.h"
#include "serving/model_server.h"

namespace rivulet {

class AbortRows {
 public:
  // `tell` receives each reason once for which a row cannot be written now; on the thread.
  AbortRows(std::string author, std::function<void(const std::string& sentence)> tell);
  ~AbortRows();  // tries the remaining rows once more
  void Add(AbortedCanary canary);

 private:
  void Work();
  // Whether no further try is needed: it is written, or was pointed again meanwhile.
  bool Write(const AbortedCanary& canary, std::string& told);

  const std::string author_;
  const std::function<void(const std::string&)> tell_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<AbortedCanary> left_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace rivulet
