// Loader of a library that contains a device back end (gpu_api.h).
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_api.h"

namespace rivulet {

// Where CudaBackend (gpu_device.h) looks, in this order: what RIVULET_CUDA_LIBRARY names and nothing else, or beside
// the program, and in the folder that it is installed to.
std::vector<std::string> GpuLibraryPlaces();

// NOT_FOUND: there is no such file. UNAVAILABLE: it cannot be opened (a library that it needs is missing), has no back
// end, or was built with another version of this program. Stays open.
StatusOr<const RivuletGpuApi*> OpenGpuLibrary(const std::string& path);

// That CudaBackend has opened; "" before, and where it found none.
std::string GpuLibraryInUse();

}  // namespace rivulet
