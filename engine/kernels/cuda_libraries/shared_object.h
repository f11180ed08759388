// Optional libraries of the toolkit, opened at their first use.
#pragma once

#include <dlfcn.h>

namespace rivulet::gpu {

// Stays open; null where it is not.
inline void* OpenSharedObject(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

// Its function `name` as `function` is declared; false where it has none.
template <typename Function>
bool TakeFunction(void* library, const char* name, Function& function) {
  function = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace rivulet::gpu
