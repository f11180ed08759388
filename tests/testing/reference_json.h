// Tensors and attributes as the reference files of tests/conformance/ops/ hold them (reference_test.cc describes the
// format).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/graph/attr.h"
#include "engine/tensor/float16.h"
#include "engine/tensor/text.h"

namespace rivulet::testing {

using Json = nlohmann::json;

inline Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// The cases of all files *_reference.json in `folder`, in order of the files' names.
inline Json ReferenceCases(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with("_reference.json")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Json all = Json::array();
  for (const auto& path : files)
    for (Json& c : ReadJson(path)) all.push_back(std::move(c));
  return all;
}

template <typename T>
T ValueOf(const Json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value.is_string()) {
      const std::string text = value.get<std::string>();
      if (text == "inf") return std::numeric_limits<T>::infinity();
      if (text == "-inf") return -std::numeric_limits<T>::infinity();
      return std::numeric_limits<T>::quiet_NaN();
    }
  }
  return value.get<T>();
}

template <typename T>
Tensor FilledFrom(const Json& entry, Shape shape) {
  Tensor tensor(kDTypeOf<T>, std::move(shape));
  size_t i = 0;
  for (const Json& value : entry["values"]) {
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>)
      tensor.flat<T>()[i++] = T(ValueOf<float>(value));
    else
      tensor.flat<T>()[i++] = ValueOf<T>(value);
  }
  return tensor;
}

inline Tensor TensorOf(const Json& entry) {
  const Shape shape(entry["shape"].get<std::vector<int64_t>>());
  switch (DTypeFromName(entry["dtype"].get<std::string>()).value_or(DType::kInvalid)) {
    case DType::kFloat32:
      return FilledFrom<float>(entry, shape);
    case DType::kFloat64:
      return FilledFrom<double>(entry, shape);
    case DType::kBFloat16:
      return FilledFrom<bfloat16>(entry, shape);
    case DType::kFloat16:
      return FilledFrom<float16>(entry, shape);
    case DType::kInt32:
      return FilledFrom<int32_t>(entry, shape);
    case DType::kInt64:
      return FilledFrom<int64_t>(entry, shape);
    case DType::kUint8:
      return FilledFrom<uint8_t>(entry, shape);
    case DType::kInt8:
      return FilledFrom<int8_t>(entry, shape);
    case DType::kInt16:
      return FilledFrom<int16_t>(entry, shape);
    case DType::kUint16:
      return FilledFrom<uint16_t>(entry, shape);
    case DType::kUint32:
      return FilledFrom<uint32_t>(entry, shape);
    case DType::kUint64:
      return FilledFrom<uint64_t>(entry, shape);
    case DType::kBool:
      return FilledFrom<bool>(entry, shape);
    case DType::kString:
      return TextTensor(shape, entry["values"].get<std::vector<std::string>>()).value();
    default:
      ADD_FAILURE() << "unknown dtype in " << entry.dump();
      return {};
  }
}

inline AttrMap AttrsOf(const Json& entries) {
  AttrMap attrs;
  for (const auto& [name, value] : entries.items()) {
    if (value.is_boolean()) {
      attrs[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      attrs[name] = value.get<int64_t>();
    } else if (value.is_number()) {
      attrs[name] = value.get<float>();
    } else if (value.is_string()) {
      attrs[name] = value.get<std::string>();
    } else if (value.is_array()) {
      attrs[name] = value.get<std::vector<int64_t>>();
    } else if (value.contains("floats")) {
      attrs[name] = value["floats"].get<std::vector<float>>();
    } else if (value.contains("strings")) {
      attrs[name] = value["strings"].get<std::vector<std::string>>();
    } else if (value.contains("shape")) {
      attrs[name] = Shape(value["shape"].get<std::vector<int64_t>>());
    } else if (value.contains("types")) {
      std::vector<DType> types;
      for (const Json& type : value["types"])
        types.push_back(DTypeFromName(type.get<std::string>()).value_or(DType::kInvalid));
      attrs[name] = std::move(types);
    } else {
      attrs[name] = DTypeFromName(value["type"].get<std::string>()).value_or(DType::kInvalid);
    }
  }
  return attrs;
}

}  // namespace rivulet::testing
