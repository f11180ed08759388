// Optional libraries of the toolkit, opened at first use.
#pragma once

#include <dlfcn.h>

namespace rivulet::gpu {

// Never closed; null if the library is missing.
inline void* OpenSharedObject(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

// Sets `function` to the library's function `name`; returns false if it is missing.
template <typename Function>
bool TakeFunction(void* library, const char* name, Function& function) {
  function = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace rivulet::gpu
