#include "tests/emulated_gpu/emulated_stream.h"

#include <atomic>
#include <chrono>
#include <utility>

namespace rivulet::gpu::emulated {
namespace {

thread_local int captures = 0;

double Now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::mutex& BackendMutex() {
  static std::mutex mutex;
  return mutex;
}

std::string& LastFailure() {
  static std::string failure;
  return failure;
}

int32_t& CurrentDevice() {
  thread_local int32_t device = 0;
  return device;
}

bool Capturing() { return captures > 0; }

uint32_t Stream::NextNumber() {
  static std::atomic<uint32_t> made = 0;
  return ++made;
}

int Stream::Put(Work work) {
  if (CurrentDevice() != device_) return kInvalid;
  if (capture_ != nullptr) {
    capture_->push_back(std::move(work));
  } else {
    items_.push_back({std::move(work), nullptr});
  }
  return kDone;
}

void Stream::RunFirst() {
  Item item = std::move(items_.front());
  items_.pop_front();
  // As on a device, nothing runs after a failure until somebody was told of it.
  if (item.work && failed_ == kDone) failed_ = item.work();
  if (item.mark != nullptr) {
    item.mark->stream = nullptr;
    item.mark->milliseconds = Now();
  }
}

int Stream::Finish() {
  if (capture_ != nullptr) return kCapturing;
  while (!items_.empty()) RunFirst();
  return std::exchange(failed_, kDone);
}

void Stream::FinishTo(const Mark* mark) {
  while (mark->stream == this && !items_.empty()) RunFirst();
}

int Stream::Record(const std::shared_ptr<Mark>& mark) {
  if (capture_ != nullptr) return kCapturing;
  mark->stream = this;
  items_.push_back({nullptr, mark});
  return kDone;
}

int Stream::WaitFor(std::shared_ptr<Mark> mark) {
  if (capture_ != nullptr) return kCapturing;
  items_.push_back({[mark = std::move(mark)] {
                      if (mark->stream != nullptr) mark->stream->FinishTo(mark.get());
                      return static_cast<int>(kDone);
                    },
                    nullptr});
  return kDone;
}

int Stream::BeginCapture() {
  if (capture_ != nullptr) return kCapturing;
  capture_ = std::make_shared<std::vector<Work>>();
  ++captures;
  return kDone;
}

int Stream::EndCapture(std::shared_ptr<const std::vector<Work>>* graph) {
  if (capture_ == nullptr) return kInvalid;
  --captures;
  *graph = std::move(capture_);
  capture_ = nullptr;
  return kDone;
}

}  // namespace rivulet::gpu::emulated
