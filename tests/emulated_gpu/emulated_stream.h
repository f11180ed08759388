// Streams, events and graphs of the emulated device. Streams are lazy: work runs when a thread waits for it, so that a
// host that reads too early always finds the old contents.
//
// One mutex protects the whole back end: its devices work one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rivulet::gpu::emulated {

// Codes of gpu_api.h's functions. kFailed: LastFailure has the message.
enum Code : int { kDone = 0, kInvalid = 1, kFailed = 2, kCapturing = 3 };

std::mutex& BackendMutex();
// The message of the process's last kFailed. Hold the mutex.
std::string& LastFailure();

using Work = std::function<int()>;

// A position in a stream's work that others wait for.
struct Mark {
  class Stream* stream = nullptr;  // null: passed
  double milliseconds = 0;         // when it was passed
};

// The device chosen by this thread (use_device). Work for another device's stream is refused, as by a device.
int32_t& CurrentDevice();

// Hold the mutex for all calls.
class Stream {
 public:
  explicit Stream(int32_t device) : device_(device), number_(NextNumber()) {}
  ~Stream() { Finish(); }
  int32_t device() const { return device_; }
  uint32_t number() const { return number_; }  // among all streams ever made
  int Put(Work work);
  int Finish();  // runs remaining work; returns the first error since the last Finish
  void FinishTo(const Mark* mark);
  int Record(const std::shared_ptr<Mark>& mark);
  int WaitFor(std::shared_ptr<Mark> mark);
  int BeginCapture();
  int EndCapture(std::shared_ptr<const std::vector<Work>>* graph);

 private:
  struct Item {
    Work work;
    std::shared_ptr<Mark> mark;  // reached with this item
  };
  void RunFirst();
  static uint32_t NextNumber();

  const int32_t device_;
  const uint32_t number_;
  std::deque<Item> items_;
  int failed_ = kDone;
  std::shared_ptr<std::vector<Work>> capture_;
};

// True during a capture by this thread: it may neither wait nor allocate, as on a device.
bool Capturing();

}  // namespace rivulet::gpu::emulated
