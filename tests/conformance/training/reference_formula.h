// First values and batches of the references that PyTorch made, by the formula of make_training_reference.py.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dataflow/session/session.h"
#include "engine/presets/presets.h"
#include "tests/testing/reference_json.h"

namespace rivulet::testing {

inline uint32_t Fnv(std::string_view text) {
  uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  return value;
}

// In [-0.5, 0.5): murmur3's finaliser of index and seed, as the script has it.
inline double Uniform(uint32_t seed, size_t index) {
  uint32_t x = static_cast<uint32_t>(index) * 2654435761u + seed;
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  x ^= x >> 16;
  return x / 4294967296.0 - 0.5;
}

inline Tensor FirstValue(const std::string& name, const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  double scale = 0.2, offset = 0;
  if (ends("gamma") || ends("moving_variance")) {
    offset = 1;
  } else if (shape.rank() >= 2 && !ends("embeddings") && !ends("positions")) {
    int64_t fan = 1;
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) fan *= shape.dim(axis);
    if (name.find("depthwise") != std::string::npos) fan = shape.dim(0) * shape.dim(1);
    scale = std::sqrt(24 / static_cast<double>(fan));
  }
  const uint32_t seed = Fnv(name);
  const auto values = tensor.flat<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(offset + scale * Uniform(seed, i));
  return tensor;
}

inline Session::Feeds Batch(const Json& c, const ModelDef& model, int step) {
  const auto examples = c["batch"].get<int64_t>();
  const auto batched = [&](Shape shape) {
    shape.set_dim(0, examples);
    return shape;
  };
  Tensor input(model.input.spec.dtype, batched(model.input.spec.shape));
  Tensor label(DType::kInt64, batched(model.label.spec.shape));
  const auto classes = c["classes"].get<double>();
  const auto seed = static_cast<uint32_t>(step % 3);
  const auto index = [&](uint32_t of, size_t i) {
    return static_cast<int64_t>(std::floor((Uniform(of + seed, i) + 0.5) * classes));
  };
  for (size_t i = 0; i < static_cast<size_t>(input.shape().elements()); ++i) {
    if (input.dtype() == DType::kInt64)
      input.flat<int64_t>()[i] = index(1000, i);
    else
      input.flat<float>()[i] = static_cast<float>(Uniform(1000 + seed, i) + 0.5);
  }
  for (size_t i = 0; i < label.flat<int64_t>().size(); ++i) label.flat<int64_t>()[i] = index(2000, i);
  return {{model.input.placeholder, input}, {model.label.placeholder, label}};
}

// The preset of a case.
inline StatusOr<ModelDef> ModelOf(const Json& c) {
  PresetOptions options;
  if (!c.contains("tokens")) {
    options.classes = c["classes"].get<int64_t>();
    options.input = c["input"].get<std::vector<int64_t>>();
    options.normalization = c.value("normalization", "");
  }
  return Preset(c["preset"].get<std::string>(), options);
}

}  // namespace rivulet::testing
