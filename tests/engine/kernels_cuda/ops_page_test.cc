// docs/reference/gpu_ops.md: the ops with a GPU kernel, and their types.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/graph/op.h"
#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

constexpr std::array kTypes = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                               DType::kInt32,   DType::kInt64,   DType::kUint8,    DType::kBool};

// "float32, float64", or "every type" of a kernel that looks at no more than an element's size; "" without any.
std::string TypesOf(std::string_view op) {
  const KernelRegistry& registry = KernelRegistry::Global();
  if (registry.IsRegisteredFor(op, Device::kCuda, DType::kInvalid)) return "as the op has them";
  std::string types;
  for (const DType dtype : kTypes)
    if (registry.IsRegisteredFor(op, Device::kCuda, dtype))
      types += fmt::format("{}{}", types.empty() ? "" : ", ", Name(dtype));
  return types;
}

std::string Page() {
  std::string rows;
  int ops = 0;
  for (const OpDef* op : OpRegistry::Global().All()) {
    if (StructuralKind(op->name) != StructuralOp::kNone || !KernelRegistry::Global().Has(op->name, Device::kCuda))
      continue;
    rows += fmt::format("| `{}` | {} |\n", op->name, TypesOf(op->name));
    ++ops;
  }
  return fmt::format(R"(# Ops with a GPU kernel

A step that is compiled for a GPU needs a kernel for each of its ops; a missing one is named in the error. These {}
ops have one, in `engine/kernels/cuda`. Ops without a kernel on any device (constants, reshapes, reads of variables,
assignments) are not listed.

An op with a float32 kernel has bfloat16 and float16 too: it goes through that one, between conversions on the device.

Einsum of float32 and float64 without diagonals, convolutions of groups and of NCHW images become others of these ops
when a program is compiled (the passes `lower_for_gpu` and `layout`). Forms that only the CPU's kernels have are refused
then, with the remedy. These are unusual activations of LSTM and GRU, activations of SimpleRNN other than tanh, relu and
sigmoid, their clips, and peepholes.

A test writes this page from the registry (`RIVULET_UPDATE_DOCS=1`).

| op | types |
| --- | --- |
{})",
                     ops, rows);
}

TEST(GpuOpsPageTest, PageIsAsTheRegistrySays) {
  const std::filesystem::path page = RIVULET_SOURCE_DIR "/docs/reference/gpu_ops.md";
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) std::ofstream(page) << Page();
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_EQ(text.str(), Page()) << "run this test with RIVULET_UPDATE_DOCS=1";
}

// A kernel for a GPU is one more for an op that the CPU has.
TEST(GpuOpsPageTest, EveryGpuKernel_IsOfAnOpWithACpuKernel) {
  for (const OpDef* op : OpRegistry::Global().All())
    EXPECT_TRUE(!KernelRegistry::Global().Has(op->name, Device::kCuda) ||
                KernelRegistry::Global().Has(op->name, Device::kCpu))
        << op->name;
}

}  // namespace
}  // namespace rivulet
