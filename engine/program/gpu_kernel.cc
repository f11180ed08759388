#include "engine/program/gpu_kernel.h"

#include "engine/base/check.h"
#include "engine/gpu/lane_copy.h"
#include "engine/program/gpu_copy.h"

namespace rivulet {
namespace {

class GpuCopyKernel final : public GpuKernel {
 public:
  explicit GpuCopyKernel(size_t bytes) : bytes_(bytes) {}
  Status Launch(const GpuContext& context) const override {
    const GpuOperand& from = context.inputs[0];
    const GpuOperand& to = context.outputs[0];
    if (bytes_ == 0 || (from.data == to.data && from.lane_stride == to.lane_stride)) return {};
    // A single lane needs no kernel.
    if (context.lanes.count == 1 && context.lanes.ids == nullptr) {
      return context.stream->OnDevice(to.data, from.data, bytes_);
    }
    return context.stream->Launch(kLaneCopyKernel,
                                  LaneCopyArguments{to.data, to.lane_stride, from.data, from.lane_stride, bytes_,
                                                    context.lanes.count, context.lanes.ids});
  }

 private:
  size_t bytes_;
};

}  // namespace

Status GpuKernel::Run(const KernelContext&) const {
  RIVULET_CHECK(false, "a kernel of a device was run on the host");
  return {};
}

std::unique_ptr<const Kernel> NewGpuCopy(size_t bytes) { return std::make_unique<GpuCopyKernel>(bytes); }

}  // namespace rivulet
