// List of the devices that a back end finds, for display.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_api.h"

namespace rivulet {

struct GpuListing {
  std::vector<RivuletGpuProperties> devices;  // by number
  std::string why_none;                       // where there is none
};

// A library that a back end opens where it is there.
struct GpuLibrary {
  std::string name;
  std::string missing;  // why it is not used, and the mend; "" where it is there
};
std::vector<GpuLibrary> LibrariesOf(const RivuletGpuApi& api);

// Opens none of them. INTERNAL: the back end fails, in its words.
StatusOr<GpuListing> ListGpus(const RivuletGpuApi& api);

}  // namespace rivulet
