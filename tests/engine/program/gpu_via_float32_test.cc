// 16-bit floats on a device have the same bits as on the host.
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/graph/scope.h"
#include "engine/program/staged_gpu_program.h"
#include "engine/tensor/float16.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

// The host's threads flush floats that are denormal, which a device does not; told by bits, since they are flushed
// here.
bool IsTheSameOnBoth(float value) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
  return magnitude == 0 || magnitude >= 0x00800000u;
}

float FloatOf(DType dtype, uint16_t bits) {
  return dtype == DType::kBFloat16 ? float(bfloat16::FromBits(bits)) : float(float16::FromBits(bits));
}

bool IsNan16(DType dtype, const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return std::isnan(FloatOf(dtype, bits));
}

class GpuViaFloat32Test : public ::testing::TestWithParam<DType> {
 protected:
  GpuViaFloat32Test() { EnterWorkerThread(); }

  // Runs `program` on `x`; the result's bytes.
  static std::vector<std::byte> Run(const Program& program, const Tensor& x, TensorSpec result) {
    auto instance = program.Instantiate();
    EXPECT_OK(instance);
    AlignedBuffer arena(program.memory().arena_bytes);
    Tensor y(result.dtype, result.shape);
    const std::vector<TensorView> feeds = {x.view()}, fetches = {y.view()};
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    EXPECT_OK((*instance)->Run(bindings));
    return {y.data(), y.data() + y.bytes()};
  }

  // Of the op over `x`, on the host and on the device.
  void ExpectEqual(const std::string& op, AttrMap attrs, const Tensor& x, DType result) {
    Graph graph;
    Scope scope(graph);
    scope.Op(op, {scope.Placeholder("x", x.dtype(), x.shape())}, std::move(attrs), "y");
    ASSERT_OK(scope.status());
    const Signature signature{.feeds = {{"x", {x.dtype(), x.shape()}}}, .fetches = {"y"}};
    ASSERT_OK_AND_ASSIGN(const auto on_host, CompileProgram(graph, signature));
    ASSERT_OK_AND_ASSIGN(const auto on_gpu, CompileForGpu(graph, signature));
    ASSERT_OK_AND_ASSIGN(auto device, GpuDevice::Open(gpu::EmulatedBackend(), 0));
    const TensorSpec spec{result, x.shape()};
    const auto expected = Run(*on_host, x, spec);
    const auto found = Run(*NewStagedProgram(on_gpu, device), x, spec);
    size_t wrong = 0;
    const size_t size = SizeOf(result);
    for (size_t at = 0; at < expected.size() && wrong < 5; at += size) {
      if (std::memcmp(&expected[at], &found[at], size) == 0) continue;
      // Which NaN an op makes of a NaN is each kernel's own.
      if (op != "Cast" && IsNan16(result, &expected[at]) && IsNan16(result, &found[at])) continue;
      ++wrong;
      ADD_FAILURE() << op << ": element " << at / size;
    }
  }
};

// All 65,536 values; zero for those that are denormal as floats.
Tensor EveryValue(DType dtype) {
  Tensor all(dtype, Shape{65536});
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<uint16_t>(bits);
    const uint16_t taken = IsTheSameOnBoth(FloatOf(dtype, value)) ? value : 0;
    std::memcpy(all.data() + 2 * bits, &taken, 2);
  }
  return all;
}

// Values of the type, and what lies around the middle to the next one.
Tensor FloatsAround(DType dtype) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 65536; bits += 7) {
    const uint32_t wide = std::bit_cast<uint32_t>(FloatOf(dtype, static_cast<uint16_t>(bits)));
    const uint32_t half = dtype == DType::kBFloat16 ? 0x8000 : 0x1000;
    for (const uint32_t near : {wide, wide + half - 1, wide + half, wide + half + 1}) {
      if (const auto candidate = std::bit_cast<float>(near); IsTheSameOnBoth(candidate)) values.push_back(candidate);
    }
  }
  return Tensor::Of<float>(Shape{static_cast<int64_t>(values.size())}, values);
}

TEST_P(GpuViaFloat32Test, Casts_HaveTheHostsBits) {
  const DType dtype = GetParam();
  ExpectEqual("Cast", {{"SrcT", DType::kFloat32}, {"DstT", dtype}}, FloatsAround(dtype), dtype);
  ExpectEqual("Cast", {{"SrcT", dtype}, {"DstT", DType::kFloat32}}, EveryValue(dtype), DType::kFloat32);
}

TEST_P(GpuViaFloat32Test, OpsWithoutAKernelOfTheirOwn_GoThroughFloats) {
  const DType dtype = GetParam();
  ExpectEqual("Neg", {}, EveryValue(dtype), dtype);
  ExpectEqual("Relu", {}, EveryValue(dtype), dtype);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuViaFloat32Test, ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(Name(type.param)); });

}  // namespace
}  // namespace rivulet
