#include "engine/gpu/gpu_listing.h"

namespace rivulet {

std::vector<GpuLibrary> LibrariesOf(const RivuletGpuApi& api) {
  size_t count = 0;
  const RivuletGpuLibrary* const libraries = api.libraries(&count);
  std::vector<GpuLibrary> all;
  for (size_t i = 0; i < count; ++i) all.push_back({libraries[i].name, libraries[i].missing});
  return all;
}

StatusOr<GpuListing> ListGpus(const RivuletGpuApi& api) {
  GpuListing listing;
  int32_t devices = 0;
  const char* why = "";
  if (const int code = api.count(&devices, &why); code != 0) {
    return Internal("the {} back end cannot list GPUs: {}", api.backend, api.error_text(code));
  }
  for (int32_t device = 0; device < devices; ++device) {
    RivuletGpuProperties properties{};
    if (const int code = api.properties(device, &properties); code != 0) {
      return Internal("GPU {} cannot be looked at: {}", device, api.error_text(code));
    }
    listing.devices.push_back(properties);
  }
  if (devices == 0) listing.why_none = why;
  return listing;
}

}  // namespace rivulet
