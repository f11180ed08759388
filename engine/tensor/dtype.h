// Element types, numbered as in TensorFlow's types.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

enum class DType : int32_t {
  kInvalid = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kInt64 = 9,
  kBool = 10,
  kBFloat16 = 14,
  kUint16 = 17,
  kFloat16 = 19,
  kResource = 20,  // a variable's handle: known when a program is compiled, never a value at run time
  kVariant = 21,   // an 8-byte handle (of a tensor list) that is valid within one run only
  kUint32 = 22,
  kUint64 = 23,
};

size_t SizeOf(DType dtype);          // bytes of one element; 8 for kString (text.h), 0 for kInvalid, kResource
std::string_view Name(DType dtype);  // "float32", as NumPy
std::string_view SafetensorsName(DType dtype);         // "F32", "" if the format lacks it
StatusOr<DType> DTypeFromNumber(int32_t number);       // INVALID_ARGUMENT for an unknown one
StatusOr<DType> DTypeFromName(std::string_view name);  // NumPy or TensorFlow name ("float", "float32", "DT_FLOAT")
StatusOr<DType> DTypeFromSafetensors(std::string_view name);
bool IsFloating(DType dtype);

template <typename T>
inline constexpr DType kDTypeOf = DType::kInvalid;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kUint8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kInt16;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kInt8;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kUint16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kUint32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kUint64;

}  // namespace rivulet
