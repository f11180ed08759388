#include "engine/gpu/cuda_library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "engine/base/join.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {
namespace {

constexpr const char* kLibrary = "librivulet_cuda.so";
constexpr const char* kVariable = "RIVULET_CUDA_LIBRARY";

struct Found {
  std::string path;
  StatusOr<const RivuletGpuApi*> api;
};

Found FindBackend() {
  const std::vector<std::string> places = GpuLibraryPlaces();
  for (const std::string& place : places) {
    StatusOr<const RivuletGpuApi*> api = OpenGpuLibrary(place);
    if (!absl::IsNotFound(api.status())) return {api.ok() ? place : "", api};
  }
  if (std::getenv(kVariable) != nullptr) {
    return {"", Unavailable("there is no '{}', which {} names; give the path of {}, or unset it", places[0], kVariable,
                            kLibrary)};
  }
  return {"", Unavailable("{} is neither {}; install the package rivulet-cuda, build with RIVULET_CUDA=ON and nvcc, or "
                          "give its path by {}",
                          kLibrary, Join(places, " nor "), kVariable)};
}

// Once in a process.
const Found& TheBackend() {
  static const Found found = FindBackend();
  return found;
}

std::atomic<bool> looked = false;

}  // namespace

std::vector<std::string> GpuLibraryPlaces() {
  if (const char* named = std::getenv(kVariable); named != nullptr) return {named};
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::filesystem::path installed = folder.parent_path() / RIVULET_LIBRARY_FOLDER;
  return {(folder / kLibrary).string(), (installed / kLibrary).string()};
}

StatusOr<const RivuletGpuApi*> OpenGpuLibrary(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return NotFound("there is no file '{}'", path);
  // By its whole path: a name alone would be looked up elsewhere.
  void* library = ::dlopen(std::filesystem::absolute(path, error).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Unavailable("'{}' cannot be opened: {}; install the libraries of CUDA that it needs", path, ::dlerror());
  }
  const auto entry = reinterpret_cast<RivuletGpuEntry>(::dlsym(library, RIVULET_GPU_ENTRY));
  if (entry == nullptr) {
    return Unavailable("'{}' has no function {}; it is no library of Rivulet's", path, RIVULET_GPU_ENTRY);
  }
  const RivuletGpuApi* api = entry();
  if (api == nullptr || api->abi != RIVULET_GPU_ABI) {
    return Unavailable("'{}' is of version {} and this program of {}; install both of one version", path,
                       api == nullptr ? 0 : api->abi, RIVULET_GPU_ABI);
  }
  return api;
}

StatusOr<const RivuletGpuApi*> CudaBackend() {
  const Found& found = TheBackend();
  looked = true;
  return found.api;
}

std::string GpuLibraryInUse() { return looked ? TheBackend().path : ""; }

}  // namespace rivulet
