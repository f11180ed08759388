// Several tensors passed on at once. Passes remove the node if only its outputs are used.
#include <cstring>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

class IdentityNKernel final : public Kernel {
 public:
  explicit IdentityNKernel(std::vector<size_t> bytes) : bytes_(std::move(bytes)) {}
  Status Run(const KernelContext& context) const override {
    for (size_t i = 0; i < bytes_.size(); ++i)
      if (bytes_[i] > 0 && context.outputs[i] != context.inputs[i])
        std::memcpy(context.outputs[i], context.inputs[i], bytes_[i]);
    return absl::OkStatus();
  }

 private:
  std::vector<size_t> bytes_;
};

StatusOr<Prepared> PrepareIdentityN(const NodeView& node, const KernelPolicy&) {
  std::vector<size_t> bytes;
  for (const TensorSpec& input : node.inputs) bytes.push_back(ValueBytes(input));
  Prepared prepared;
  for (int i = 0; i < static_cast<int>(bytes.size()); ++i) prepared.in_place.emplace_back(i, i);
  prepared.kernel = std::make_unique<IdentityNKernel>(std::move(bytes));
  prepared.implementation = "copy";
  return prepared;
}
RIVULET_KERNEL("IdentityN", Device::kCpu, void, PrepareIdentityN);

}  // namespace
}  // namespace rivulet
