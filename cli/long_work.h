// Work that Ctrl-C stops cleanly, and that tells on stderr how far it is once it has taken a second, in the way that
// --quiet and --progress ask for.
#pragma once

#include <chrono>
#include <string>

#include "cli/interrupt.h"
#include "engine/data/progress.h"

namespace rivulet {

// One at a time, and no other Interrupt beside it.
class LongWork {
 public:
  // `what`: "writing clients".
  explicit LongWork(std::string what);
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  // To be given to the work; this object must outlive it.
  DataProgress progress();

 private:
  const std::string what_;
  const bool terminal_;
  Interrupt interrupt_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  bool open_ = false;  // a line without its end is on the terminal
};

}  // namespace rivulet
