#include "client/training/task_streams.h"

#include <numeric>

#include "engine/base/draws.h"

namespace rivulet {

StreamKey StreamOf(const Task& task, Purpose purpose) {
  return StreamFor(task.stream_key, OfKind(purpose, static_cast<uint8_t>(task.kind)),
                   static_cast<uint32_t>(task.base_version), task.ordinal);
}

void OrderInto(std::vector<uint32_t>& order, const Task& task, uint64_t epoch, int64_t size, bool shuffle) {
  if (shuffle) {
    Draws draws(StreamOf(task, Purpose::kShuffle), static_cast<uint32_t>(epoch));
    order = Permutation(draws, static_cast<uint32_t>(size));
  } else {
    order.resize(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0u);
  }
}

int64_t EpochsOf(const Task& task, const LocalPass& pass) {
  if (pass.partial_work == 0) return pass.epochs;
  Draws draws(StreamOf(task, Purpose::kWork), 0);
  if (draws.Uniform() >= pass.partial_work) return pass.epochs;
  return 1 + static_cast<int64_t>(draws.Below(static_cast<uint64_t>(pass.epochs)));
}

}  // namespace rivulet
