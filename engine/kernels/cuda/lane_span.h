// Operands in the arguments of device kernels: written by host code, read by device code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define RIVULET_HOST_DEVICE __host__ __device__
#else
#define RIVULET_HOST_DEVICE
#endif

namespace rivulet::gpu {

// Memory of lane 0; the next lane's is `lane_stride` bytes further (0: shared by all lanes).
template <typename T>
struct LaneSpan {
  T* data;
  size_t lane_stride;
  RIVULET_HOST_DEVICE T* of(int lane) const {
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return reinterpret_cast<T*>(reinterpret_cast<Byte*>(data) + lane_stride * static_cast<size_t>(lane));
  }
};

// The lanes of a call: the grid's z is an index into `ids` (lane numbers in device memory; null: 0, 1, …).
struct Lanes {
  int32_t count;
  const int32_t* ids;
  RIVULET_HOST_DEVICE int Number(uint32_t z) const { return ids == nullptr ? static_cast<int>(z) : ids[z]; }
};

}  // namespace rivulet::gpu
