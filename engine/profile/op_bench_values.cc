#include "engine/profile/op_bench_values.h"

#include "engine/passes/pass.h"

namespace rivulet {

void MakeUpValues(DType dtype, std::byte* data, int64_t elements, size_t seed) {
  const auto number = [&](int64_t i) {
    return static_cast<float>((i * 37 + static_cast<int64_t>(seed) * 11) % 251 + 1) / 251;
  };
  for (int64_t i = 0; i < elements; ++i) {
    switch (dtype) {
      case DType::kFloat32:
        reinterpret_cast<float*>(data)[i] = number(i);
        break;
      case DType::kFloat64:
        reinterpret_cast<double*>(data)[i] = number(i);
        break;
      case DType::kBFloat16:
        reinterpret_cast<bfloat16*>(data)[i] = bfloat16(number(i));
        break;
      case DType::kFloat16:
        reinterpret_cast<float16*>(data)[i] = float16(number(i));
        break;
      default:
        return;  // zeros
    }
  }
}

void AppendFloats(const TensorView& view, std::vector<float>& out) {
  const int64_t elements = view.shape.elements();
  for (int64_t i = 0; i < elements; ++i) {
    switch (view.dtype) {
      case DType::kFloat32:
        out.push_back(reinterpret_cast<const float*>(view.data)[i]);
        break;
      case DType::kFloat64:
        out.push_back(static_cast<float>(reinterpret_cast<const double*>(view.data)[i]));
        break;
      case DType::kBFloat16:
        out.push_back(static_cast<float>(reinterpret_cast<const bfloat16*>(view.data)[i]));
        break;
      case DType::kFloat16:
        out.push_back(static_cast<float>(reinterpret_cast<const float16*>(view.data)[i]));
        break;
      case DType::kInt32:
        out.push_back(static_cast<float>(reinterpret_cast<const int32_t*>(view.data)[i]));
        break;
      case DType::kInt64:
        out.push_back(static_cast<float>(reinterpret_cast<const int64_t*>(view.data)[i]));
        break;
      default:
        out.push_back(static_cast<float>(static_cast<uint8_t>(view.data[static_cast<size_t>(i) * SizeOf(view.dtype)])));
    }
  }
}

Signature OpBenchSignature(const OpBenchGraph& bench) {
  Signature signature;
  for (const Output& fed : bench.fed) signature.feeds.push_back({fed.name(), {fed.dtype(), fed.shape()}});
  for (size_t i = 0; i < bench.variables.size(); ++i)
    signature.variables.push_back({fmt::format("variable_{}", i), static_cast<int>(i), 0, bench.variables[i]});
  for (size_t port = 0; port < bench.node->outputs().size(); ++port)
    signature.fetches.push_back(bench.node->output(static_cast<int>(port)).name());
  signature.targets = {bench.node->name()};
  return signature;
}

CompileOptions OpBenchCompileOptions() {
  CompileOptions options;
  for (const Pass& pass : Passes())
    if (pass.optional) options.passes.without.emplace_back(pass.name);
  return options;
}

}  // namespace rivulet
