// List of the devices that a back end finds, for display.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_api.h"

namespace rivulet {

struct GpuListing {
  std::vector<RivuletGpuProperties> devices;  // ordered by number
  std::string why_none;                       // reason, if there are none
};

// An optional library that a back end opens if it is installed.
struct GpuLibrary {
  std::string name;
  std::string missing;  // why it is not used, and the remedy; "" if it is installed
};
std::vector<GpuLibrary> LibrariesOf(const RivuletGpuApi& api);

// Lists the devices without opening them. INTERNAL: the back end fails, with its message.
StatusOr<GpuListing> ListGpus(const RivuletGpuApi& api);

}  // namespace rivulet
