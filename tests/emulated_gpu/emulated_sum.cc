#include "tests/emulated_gpu/emulated_sum.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/emulated_stream.h"

namespace rivulet::gpu::emulated {
namespace {

using Devices = std::vector<int32_t>;

template <typename Number>
void Add(const std::vector<void*>& numbers, size_t count) {
  auto* const sums = static_cast<Number*>(numbers[0]);
  for (size_t device = 1; device < numbers.size(); ++device) {
    const auto* const more = static_cast<const Number*>(numbers[device]);
    for (size_t i = 0; i < count; ++i) sums[i] += more[i];
  }
}

// What `from` was given so far runs before what `then` is given from now on.
int Await(Stream& from, Stream& then) {
  auto mark = std::make_shared<Mark>();
  const int code = from.Record(mark);
  return code == kDone ? then.WaitFor(std::move(mark)) : code;
}

}  // namespace

int SumCreate(const int32_t* devices, int32_t count, void** sum) {
  Devices all(devices, devices + count);
  if (std::set<int32_t>(all.begin(), all.end()).size() != all.size()) return kInvalid;
  *sum = new Devices(std::move(all));
  return kDone;
}

int SumDestroy(void* sum) {
  delete static_cast<Devices*>(sum);
  return kDone;
}

// As a device's: no stream goes on before the sums are there.
int SumAdd(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes) {
  const std::lock_guard<std::mutex> lock(BackendMutex());
  const Devices& devices = *static_cast<const Devices*>(sum);
  std::vector<Stream*> in;
  for (size_t i = 0; i < devices.size(); ++i) {
    in.push_back(static_cast<Stream*>(streams[i]));
    if (in[i]->device() != devices[i]) return kInvalid;
  }
  for (size_t i = 1; i < in.size(); ++i) {
    if (const int code = Await(*in[i], *in[0]); code != kDone) return code;
  }
  const int32_t chosen = std::exchange(CurrentDevice(), devices[0]);
  const int put = in[0]->Put([numbers = std::vector<void*>(numbers, numbers + devices.size()), count, bytes] {
    if (bytes == 8) {
      Add<uint64_t>(numbers, count);
    } else {
      Add<uint32_t>(numbers, count);
    }
    return static_cast<int>(kDone);
  });
  CurrentDevice() = chosen;
  for (size_t i = 1; i < in.size() && put == kDone; ++i) {
    if (const int code = Await(*in[0], *in[i]); code != kDone) return code;
  }
  return put;
}

}  // namespace rivulet::gpu::emulated
