// What devices a back end shows, for whoever tells a person.
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

// Opens none of them. INTERNAL: the back end fails, in its words.
StatusOr<GpuListing> ListGpus(const RivuletGpuApi& api);

}  // namespace rivulet
