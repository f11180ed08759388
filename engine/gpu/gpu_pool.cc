#include "engine/gpu/gpu_pool.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/check.h"
#include "engine/gpu/gpu_alignment.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif !defined(ASAN_POISON_MEMORY_REGION)  // clang has it by abseil's headers
#define ASAN_POISON_MEMORY_REGION(at, bytes) (static_cast<void>(at), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (static_cast<void>(at), static_cast<void>(bytes))
#endif

namespace rivulet {
namespace {

constexpr size_t kFirstRegion = size_t{2} << 20;
constexpr size_t kLargestStep = size_t{1} << 30;
constexpr size_t kHolders = 5;

std::string Readable(size_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

GpuPool::GpuPool(Source source, size_t limit, bool grow)
    : source_(std::move(source)), limit_(limit / kGpuAlignment * kGpuAlignment), grow_(grow) {}

GpuPool::~GpuPool() {
  RIVULET_CHECK(in_use_ == 0, "memory of a device outlives its pool");
  GiveBackFreeRegions();
}

StatusOr<std::byte*> GpuPool::Allocate(size_t bytes, std::string_view what) {
  if (bytes > limit_) return Exhausted(bytes, what);
  // Adds a byte with the sanitizer, so that each block is followed by memory that is not allocated.
  const size_t wanted = GpuAligned(std::max<size_t>(bytes + (source_.host_memory ? 1 : 0), 1));
  auto found = free_.lower_bound({wanted, nullptr});
  if (found == free_.end()) {
    Status error;
    const bool grown = Grow(wanted, &error) || (GiveBackFreeRegions() > 0 && Grow(wanted, &error));
    RIVULET_RETURN_IF_ERROR(error);
    if (!grown) return Exhausted(bytes, what);
    found = free_.lower_bound({wanted, nullptr});
  }
  const auto stretch = stretches_.find(found->second);
  RemoveFree(stretch);
  if (const size_t rest = stretch->second.bytes - wanted; rest > 0) {
    const auto behind =
        stretches_.emplace(stretch->first + wanted, Stretch{stretch->second.region, rest, true, ""}).first;
    AddFree(behind);
    stretch->second.bytes = wanted;
  }
  stretch->second.free = false;
  stretch->second.what = what;
  in_use_ += wanted;
  if (source_.host_memory) ASAN_UNPOISON_MEMORY_REGION(stretch->first, bytes);
  return stretch->first;
}

void GpuPool::Release(std::byte* memory) {
  auto stretch = stretches_.find(memory);
  RIVULET_CHECK(stretch != stretches_.end() && !stretch->second.free, "a device's memory is given back twice");
  in_use_ -= stretch->second.bytes;
  stretch->second.free = true;
  stretch->second.what.clear();
  if (source_.host_memory) {
    ASAN_UNPOISON_MEMORY_REGION(memory, stretch->second.bytes);
    std::memset(memory, 0xFF, stretch->second.bytes);
    ASAN_POISON_MEMORY_REGION(memory, stretch->second.bytes);
  }
  const auto joins = [&](const Stretches::value_type& other) {
    return other.second.free && other.second.region == stretch->second.region;
  };
  if (const auto next = std::next(stretch); next != stretches_.end() && joins(*next)) {
    RemoveFree(next);
    stretch->second.bytes += next->second.bytes;
    stretches_.erase(next);
  }
  if (stretch != stretches_.begin()) {
    if (const auto before = std::prev(stretch); joins(*before)) {
      RemoveFree(before);
      before->second.bytes += stretch->second.bytes;
      stretches_.erase(stretch);
      stretch = before;
    }
  }
  AddFree(stretch);
}

void GpuPool::AddFree(Stretches::iterator stretch) { free_.emplace(stretch->second.bytes, stretch->first); }

// False: the limit or the driver is in the way.
bool GpuPool::Grow(size_t bytes, Status* error) {
  const size_t room = limit_ - held_;
  if (bytes > room) return false;
  const size_t step = grow_ ? std::clamp(held_, kFirstRegion, kLargestStep) : room;
  for (const size_t size : {std::min(std::max(step, bytes), room), bytes}) {
    StatusOr<std::byte*> region = source_.take(size);
    if (!region.ok()) {
      *error = region.status();
      return false;
    }
    if (*region == nullptr) continue;  // less may be there
    regions_.emplace(*region, size);
    held_ += size;
    if (source_.host_memory) ASAN_POISON_MEMORY_REGION(*region, size);
    AddFree(stretches_.emplace(*region, Stretch{*region, size, true, ""}).first);
    return true;
  }
  return false;
}

size_t GpuPool::GiveBackFreeRegions() {
  size_t given = 0;
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto stretch = stretches_.find(region->first);
    if (!stretch->second.free || stretch->second.bytes != region->second) {
      ++region;
      continue;
    }
    RemoveFree(stretch);
    stretches_.erase(stretch);
    if (source_.host_memory) ASAN_UNPOISON_MEMORY_REGION(region->first, region->second);
    source_.give_back(region->first);
    given += region->second;
    held_ -= region->second;
    region = regions_.erase(region);
  }
  return given;
}

Status GpuPool::Exhausted(size_t bytes, std::string_view what) const {
  const size_t longest = free_.empty() ? 0 : free_.rbegin()->first;
  return ResourceExhausted(
      "no {} of device memory for {}: {} of {} are in use, and the longest free piece that is held has {}; {}take "
      "fewer lanes or smaller batches, or allow more (per_process_gpu_memory_fraction)",
      Readable(bytes), what, Readable(in_use_), Readable(limit_), Readable(longest), LargestHolders());
}

// "'weights' has 3.0 MB in 2 pieces, 'arena' 1.0 MB; ", or nothing.
std::string GpuPool::LargestHolders() const {
  std::map<std::string, std::pair<size_t, int>> by_name;
  for (const auto& [at, stretch] : stretches_) {
    if (stretch.free) continue;
    auto& [bytes, pieces] = by_name[stretch.what];
    bytes += stretch.bytes;
    ++pieces;
  }
  std::vector<std::pair<std::string, std::pair<size_t, int>>> holders(by_name.begin(), by_name.end());
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  if (holders.size() > kHolders) holders.resize(kHolders);
  std::string list;
  for (const auto& [name, held] : holders) {
    list += list.empty() ? "the largest user is " : ", ";
    list += fmt::format("{} ({}", name, Readable(held.first));
    list += held.second == 1 ? ")" : fmt::format(" in {} pieces)", held.second);
  }
  return list.empty() ? "" : list + "; ";
}

}  // namespace rivulet
