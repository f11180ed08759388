// Streams, events and graphs of the emulated device. Streams are lazy: work that was put there runs when somebody waits
// for it, so that a host that reads too early finds what was there before, every time.
//
// One mutex holds the whole back end: its devices do one thing at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rivulet::gpu::emulated {

// Codes of gpu_api.h's functions. kFailed: in words, by LastFailure.
enum Code : int { kDone = 0, kInvalid = 1, kFailed = 2, kCapturing = 3 };

std::mutex& BackendMutex();
// What made the last kFailed of this process. With the mutex.
std::string& LastFailure();

using Work = std::function<int()>;

// A place in a stream's work that others wait for.
struct Mark {
  class Stream* stream = nullptr;  // null: passed
  double milliseconds = 0;         // when it was passed
};

// That this thread has chosen (use_device). Work for a stream of another is refused, as by a device.
int32_t& CurrentDevice();

// All with the mutex held.
class Stream {
 public:
  explicit Stream(int32_t device) : device_(device), number_(NextNumber()) {}
  ~Stream() { Finish(); }
  int32_t device() const { return device_; }
  uint32_t number() const { return number_; }  // among all streams ever made
  int Put(Work work);
  int Finish();  // runs what is left; the first error of what ran since the last Finish
  void FinishTo(const Mark* mark);
  int Record(const std::shared_ptr<Mark>& mark);
  int WaitFor(std::shared_ptr<Mark> mark);
  int BeginCapture();
  int EndCapture(std::shared_ptr<const std::vector<Work>>* graph);

 private:
  struct Item {
    Work work;
    std::shared_ptr<Mark> mark;  // that is passed with this item
  };
  void RunFirst();
  static uint32_t NextNumber();

  const int32_t device_;
  const uint32_t number_;
  std::deque<Item> items_;
  int failed_ = kDone;
  std::shared_ptr<std::vector<Work>> capture_;
};

// This thread captures: it may neither wait nor allocate, as on a device.
bool Capturing();

}  // namespace rivulet::gpu::emulated
