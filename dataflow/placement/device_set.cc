#include "dataflow/placement/device_set.h"

#include <algorithm>
#include <tuple>

#include "dataflow/placement/placer.h"
#include "dataflow/resources/async_op.h"
#include "engine/base/join.h"
#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"
#include "engine/program/via_float32.h"

namespace rivulet {
namespace {

constexpr int kMaxCpus = 64, kMaxGpus = 64;
constexpr size_t kShownDevices = 16;

auto Order(const PlacementDevice& device) {
  return std::tuple(-device.priority, *device.name.type, *device.name.job, *device.name.replica, *device.name.task,
                    *device.name.id);
}

}  // namespace

StatusOr<DeviceSet> DeviceSet::Create(std::vector<PlacementDevice> devices) {
  if (devices.empty()) return InvalidArgument("there is no device to place nodes on");
  for (const PlacementDevice& device : devices)
    if (!device.name.complete())
      return InvalidArgument("the device name '{}' is incomplete; a device has a job, replica, task, type and number",
                             device.name.ToString());
  std::ranges::sort(devices, [](const auto& a, const auto& b) { return Order(a) < Order(b); });
  for (size_t i = 1; i < devices.size(); ++i)
    if (devices[i].name == devices[i - 1].name)
      return InvalidArgument("there are two devices '{}'", devices[i].name.ToString());
  DeviceSet set;
  set.devices_ = std::move(devices);
  return set;
}

StatusOr<DeviceSet> DeviceSet::LocalCpus(int count) { return Local(count, 0); }

StatusOr<DeviceSet> DeviceSet::Local(int cpus, int gpus) {
  if (cpus < 1 || cpus > kMaxCpus)
    return InvalidArgument("{} CPU devices were asked for; there may be 1 to {}", cpus, kMaxCpus);
  if (gpus < 0 || gpus > kMaxGpus)
    return InvalidArgument("{} GPU devices were asked for; there may be 0 to {}", gpus, kMaxGpus);
  std::vector<PlacementDevice> devices;
  for (int i = 0; i < cpus; ++i) devices.push_back({{"localhost", 0, 0, "CPU", i}, 0, 1, RunsOnCpu});
  for (int i = 0; i < gpus; ++i) devices.push_back({{"localhost", 0, 0, "GPU", i}, 1, 1, RunsOnGpu});
  return Create(std::move(devices));
}

StatusOr<DeviceSet> DeviceSet::Filter(std::span<const std::string> filters) const {
  if (filters.empty()) return *this;
  std::vector<DeviceName> patterns;
  for (const std::string& filter : filters) {
    StatusOr<DeviceName> pattern = ParseDeviceName(filter);
    if (!pattern.ok()) return Annotate(pattern.status(), "a device filter");
    patterns.push_back(*std::move(pattern));
  }
  DeviceSet left;
  for (const PlacementDevice& device : devices_)
    if (std::ranges::any_of(patterns, [&](const DeviceName& p) { return IsSpecificationOf(p, device.name); }))
      left.devices_.push_back(device);
  if (left.devices_.empty())
    return InvalidArgument("the device filter{} '{}' leave{} none of the devices {}", filters.size() == 1 ? "" : "s",
                           Join(filters, "', '"), filters.size() == 1 ? "s" : "", ToString());
  return left;
}

std::string DeviceSet::ToString() const {
  std::string text = "[";
  for (size_t i = 0; i < devices_.size() && i < kShownDevices; ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", devices_[i].name.ToString());
  if (devices_.size() > kShownDevices) text += fmt::format(", and {} more", devices_.size() - kShownDevices);
  return text + " ]";
}

bool RunsOnCpu(const Node& node) {
  return ReadsOnlyTheShape(node) || KernelRegistry::Global().Has(node.type(), Device::kCpu) ||
         AsyncOpRegistry::Global().Has(node.type()) || AsyncOpRegistry::Global().FindDynamic(node.type()) != nullptr;
}

bool RunsOnGpu(const Node& node) {
  const auto is_of_the_host = [](DType dtype) { return dtype == DType::kString || dtype == DType::kVariant; };
  for (const TensorSpec& output : node.outputs())
    if (is_of_the_host(output.dtype)) return false;
  for (const Output& input : node.inputs())
    if (is_of_the_host(input.dtype())) return false;
  if (AsyncOpRegistry::Global().Has(node.type())) return false;
  if (StructuralKind(node.type()) != StructuralOp::kNone || ReadsOnlyTheShape(node)) return true;
  return HasKernelFor(node.type(), Device::kCuda, KernelDType(node));
}

}  // namespace rivulet
