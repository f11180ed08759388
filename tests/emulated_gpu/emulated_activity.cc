#include "tests/emulated_gpu/emulated_activity.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace rivulet::gpu::emulated {
namespace {

constexpr int64_t kZero = 1'000'000'000'000'000;  // what this clock shows when the host's shows nothing

struct Record {
  RivuletGpuActivity activity;
  std::string name;
};

// With BackendMutex.
struct Records {
  bool taken = false;
  std::vector<Record> all;
  std::optional<uint64_t> of_graph;  // the label of the graph that runs
};

Records& TheRecords() {
  static Records* records = new Records;  // streams may still run when statics go
  return *records;
}

uint64_t& LabelOfThread() {
  thread_local uint64_t label = 0;
  return label;
}

int64_t Now() {
  return kZero +
         std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
             .count();
}

}  // namespace

Work Recorded(const Stream& stream, RivuletGpuActivityKind kind, std::string name, uint64_t bytes, Work work) {
  RivuletGpuActivity activity{};
  activity.kind = kind;
  activity.device = stream.device();
  activity.stream = stream.number();
  activity.label = LabelOfThread();
  activity.bytes = bytes;
  return [activity, name = std::move(name), work = std::move(work)] {
    Records& records = TheRecords();
    if (!records.taken) return work();
    RivuletGpuActivity done = activity;
    if (records.of_graph) done.label = *records.of_graph;
    done.begin = Now();
    const int code = work();
    done.end = Now();
    records.all.push_back({done, name});
    return code;
  };
}

Work UnderOneLabel(Work work) {
  return [label = LabelOfThread(), work = std::move(work)] {
    std::optional<uint64_t>& of_graph = TheRecords().of_graph;
    of_graph = label;
    const int code = work();
    of_graph.reset();
    return code;
  };
}

const char* ActivityMissing() { return ""; }

int ActivityStart() {
  const std::lock_guard<std::mutex> lock(BackendMutex());
  Records& records = TheRecords();
  if (records.taken) return kInvalid;
  records.taken = true;
  return kDone;
}

int ActivityStop(void* taker, RivuletGpuActivityTaker take) {
  std::vector<Record> all;
  {
    const std::lock_guard<std::mutex> lock(BackendMutex());
    Records& records = TheRecords();
    if (!records.taken) return kInvalid;
    records.taken = false;
    all.swap(records.all);
  }
  // The last first: nobody may rely on an order.
  for (auto record = all.rbegin(); record != all.rend(); ++record) {
    record->activity.name = record->name.c_str();
    take(taker, &record->activity);
  }
  return kDone;
}

int ActivityClock(int64_t* nanoseconds) {
  *nanoseconds = Now();
  return kDone;
}

int ActivityLabel(uint64_t label) {
  LabelOfThread() = label;
  return kDone;
}

}  // namespace rivulet::gpu::emulated
