// Loader of a library that contains a device back end (gpu_api.h).
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_api.h"

namespace rivulet {

// Returns the paths that CudaBackend (gpu_device.h) tries. These are the value of RIVULET_CUDA_LIBRARY alone, or
// otherwise the program's folder and the installation folder, in this order.
std::vector<std::string> GpuLibraryPlaces();

// Opens a library, which stays open. NOT_FOUND: there is no such file. UNAVAILABLE: it cannot be opened (a library that
// it needs is missing), has no back end, or was built with another version of this program.
StatusOr<const RivuletGpuApi*> OpenGpuLibrary(const std::string& path);

// Returns the path of the library that CudaBackend has opened; "" before, or if it found none.
std::string GpuLibraryInUse();

}  // namespace rivulet
