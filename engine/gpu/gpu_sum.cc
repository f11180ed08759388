#include "engine/gpu/gpu_sum.h"

#include "engine/base/check.h"

namespace rivulet {

std::string GpuSumMissing(const RivuletGpuApi& api) { return api.sum_missing(); }

StatusOr<std::unique_ptr<GpuSum>> GpuSum::Create(std::span<const std::shared_ptr<GpuDevice>> devices) {
  RIVULET_CHECK(!devices.empty());
  std::unique_ptr<GpuSum> sum(new GpuSum(devices));
  if (const std::string missing = GpuSumMissing(sum->api()); !missing.empty()) {
    return Unavailable("GPUs cannot add among themselves: {}", missing);
  }
  std::vector<int32_t> numbers;
  for (const auto& device : devices) numbers.push_back(device->number());
  RIVULET_RETURN_IF_ERROR(sum->Error(
      sum->api().sum_create(numbers.data(), static_cast<int32_t>(numbers.size()), &sum->sum_), "finding each other"));
  return sum;
}

GpuSum::~GpuSum() {
  if (sum_ != nullptr) api().sum_destroy(sum_);
}

Status GpuSum::Error(int code, std::string_view doing) const {
  if (code == 0) return {};
  return Internal("{} GPUs ({}): {}: {}", devices_.size(), api().backend, doing, api().error_text(code));
}

Status GpuSum::Add(std::span<GpuStream* const> streams, std::span<std::byte* const> numbers, size_t count,
                   size_t bytes) {
  RIVULET_CHECK(streams.size() == devices_.size() && numbers.size() == devices_.size());
  RIVULET_CHECK(bytes == sizeof(int64_t) || bytes == sizeof(int32_t));
  if (count == 0) return {};
  std::vector<void*> in, at;
  for (GpuStream* const stream : streams) in.push_back(stream->stream_);
  for (std::byte* const of_device : numbers) at.push_back(of_device);
  return Error(api().sum_add(sum_, in.data(), at.data(), count, static_cast<int32_t>(bytes)), "adding");
}

}  // namespace rivulet
