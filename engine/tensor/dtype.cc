#include "engine/tensor/dtype.h"

#include <array>

namespace rivulet {
namespace {

struct DTypeInfo {
  DType dtype;
  size_t size;
  std::string_view name;        // NumPy's
  std::string_view tensorflow;  // short TensorFlow name in signatures
  std::string_view enum_name;   // of types.proto
  std::string_view safetensors;
};

constexpr std::array<DTypeInfo, 17> kDTypes = {{
    {DType::kFloat32, 4, "float32", "float", "DT_FLOAT", "F32"},
    {DType::kFloat64, 8, "float64", "double", "DT_DOUBLE", "F64"},
    {DType::kInt32, 4, "int32", "int32", "DT_INT32", "I32"},
    {DType::kUint8, 1, "uint8", "uint8", "DT_UINT8", "U8"},
    {DType::kInt16, 2, "int16", "int16", "DT_INT16", "I16"},
    {DType::kInt8, 1, "int8", "int8", "DT_INT8", "I8"},
    {DType::kString, 8, "string", "string", "DT_STRING", ""},
    {DType::kInt64, 8, "int64", "int64", "DT_INT64", "I64"},
    {DType::kBool, 1, "bool", "bool", "DT_BOOL", "BOOL"},
    {DType::kBFloat16, 2, "bfloat16", "bfloat16", "DT_BFLOAT16", "BF16"},
    {DType::kUint16, 2, "uint16", "uint16", "DT_UINT16", "U16"},
    {DType::kFloat16, 2, "float16", "half", "DT_HALF", "F16"},
    {DType::kResource, 0, "resource", "resource", "DT_RESOURCE", ""},
    {DType::kVariant, 8, "variant", "variant", "DT_VARIANT", ""},
    {DType::kUint32, 4, "uint32", "uint32", "DT_UINT32", "U32"},
    {DType::kUint64, 8, "uint64", "uint64", "DT_UINT64", "U64"},
    {DType::kInvalid, 0, "invalid", "invalid", "DT_INVALID", ""},
}};

const DTypeInfo& Info(DType dtype) {
  for (const DTypeInfo& info : kDTypes)
    if (info.dtype == dtype) return info;
  return kDTypes.back();
}

}  // namespace

size_t SizeOf(DType dtype) { return Info(dtype).size; }
std::string_view Name(DType dtype) { return Info(dtype).name; }
std::string_view SafetensorsName(DType dtype) { return Info(dtype).safetensors; }

StatusOr<DType> DTypeFromNumber(int32_t number) {
  for (const DTypeInfo& info : kDTypes)
    if (info.dtype != DType::kInvalid && static_cast<int32_t>(info.dtype) == number) return info.dtype;
  return InvalidArgument("{} is not the number of a supported data type", number);
}

StatusOr<DType> DTypeFromName(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == DType::kInvalid) continue;
    if (name == info.name || name == info.tensorflow || name == info.enum_name) return info.dtype;
  }
  return InvalidArgument("'{}' is not a supported data type", name);
}

StatusOr<DType> DTypeFromSafetensors(std::string_view name) {
  for (const DTypeInfo& info : kDTypes)
    if (!info.safetensors.empty() && name == info.safetensors) return info.dtype;
  return InvalidArgument("'{}' is not a supported safetensors data type", name);
}

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

}  // namespace rivulet
