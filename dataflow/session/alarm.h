// Timer that calls back at a given time; sessions use it to end runs that exceed their time limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace rivulet {

// Calls back once at `when`, on a thread shared by the process, unless it is destroyed earlier. The destructor waits
// for a running callback.
class Alarm {
 public:
  Alarm(std::chrono::steady_clock::time_point when, std::function<void()> callback);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  uint64_t id_ = 0;
};

}  // namespace rivulet
