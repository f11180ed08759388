#include "engine/gpu/cuda/toolkit_libraries.h"

#include <dlfcn.h>

#include <string>

#include "engine/gpu/cuda/cupti_records.h"
#include "engine/gpu/cuda/nccl_sum.h"

namespace rivulet::gpu {
namespace {

// Only libraries whose functions this library was built to call (engine/kernels/cuda_libraries).
#ifdef RIVULET_CUBLASLT
constexpr bool kCallsCublasLt = true;
#else
constexpr bool kCallsCublasLt = false;
#endif

std::string MissingOf(const std::string& name, const char* file, bool calls) {
  if (!calls) return "the library was built without " + name + "'s headers; install them and build it again";
  if (::dlopen(file, RTLD_NOW | RTLD_LOCAL) != nullptr) return "";
  return name + " cannot be opened (" + ::dlerror() + "); install it, or name its folder in LD_LIBRARY_PATH";
}

}  // namespace

const RivuletGpuLibrary* ToolkitLibraries(size_t* count) {
  static const std::string no_products = MissingOf("cuBLASLt", kCublasLtLibrary, kCallsCublasLt);
  static const RivuletGpuLibrary libraries[] = {
      {"cuBLASLt", no_products.c_str()}, {"NCCL", NcclMissing()}, {"CUPTI", CuptiMissing()}};
  *count = sizeof(libraries) / sizeof(libraries[0]);
  return libraries;
}

}  // namespace rivulet::gpu
