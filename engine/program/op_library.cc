#include "engine/program/op_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/graph/collected_ops.h"
#include "engine/graph/op.h"
#include "engine/program/collected_kernels.h"

namespace rivulet {
namespace {

struct Pending {
  std::vector<OpDef> ops;
  std::vector<internal::CollectedKernel> kernels;
};

constexpr std::string_view kMarker = "rivulet_op_library_abi_";

// The number in the marker's name, from the file's table of strings. -1 where there is none.
// Read from the file's bytes, before the loader sees it: loading runs the library's initializers, and those of another
// version would hand over structures of another layout before anybody could ask.
int MarkedAbi(std::string_view file) {
  for (size_t at = file.find(kMarker); at != std::string_view::npos; at = file.find(kMarker, at + 1)) {
    int abi = 0;
    const char* first = file.data() + at + kMarker.size();
    const char* last = file.data() + file.size();
    const auto [end, error] = std::from_chars(first, last, abi);
    if (error == std::errc() && end != last && *end == '\0') return abi;
  }
  return -1;
}

std::string Loader() {
  const char* message = dlerror();
  return message == nullptr ? "no reason given" : message;
}

std::string Described(const internal::CollectedKernel& kernel) {
  return fmt::format("{} ({}, {})", kernel.op, Name(kernel.device),
                     kernel.dtype == DType::kInvalid ? "any type" : Name(kernel.dtype));
}

Status CheckAgainstRegistries(const Pending& pending, const std::string& path) {
  std::map<std::string, std::string> seen;
  for (const OpDef& op : pending.ops) {
    const OpDef* earlier = OpRegistry::Global().Find(op.name);
    if (earlier != nullptr)
      return AlreadyExists("{}: the op '{}' ({}) is there already ({}); give it another name", path, op.name,
                           op.registered_at, earlier->registered_at);
    if (const auto [at, inserted] = seen.emplace(op.name, op.registered_at); !inserted)
      return AlreadyExists("{}: registers the op '{}' twice, at {} and at {}", path, op.name, at->second,
                           op.registered_at);
  }
  for (const auto& kernel : pending.kernels) {
    const auto same = [&](const auto& other) {
      return other.op == kernel.op && other.device == kernel.device && other.dtype == kernel.dtype;
    };
    if (KernelRegistry::Global().IsRegisteredFor(kernel.op, kernel.device, kernel.dtype) ||
        std::ranges::count_if(pending.kernels, same) > 1)
      return AlreadyExists("{}: the kernel {} ({}:{}) is there already", path, Described(kernel), kernel.file,
                           kernel.line);
    if (!seen.contains(kernel.op) && OpRegistry::Global().Find(kernel.op) == nullptr)
      return NotFound("{}: the kernel {} ({}:{}) is for an op that nobody registers", path, Described(kernel),
                      kernel.file, kernel.line);
  }
  return absl::OkStatus();
}

}  // namespace

// A library counts whole or not at all. Its initializers register into lists of this thread, which are checked against
// the registries before anything is entered: half of a library's ops would make graphs that load and cannot run. Names
// are bound at once (RTLD_NOW), so that a missing symbol is an error here and no crash in a kernel, and stay the
// library's own (RTLD_LOCAL), so that two libraries may have functions of one name.
StatusOr<OpLibrary> LoadOpLibrary(const std::string& path) {
  static Mutex mutex;
  static std::map<std::string, OpLibrary>& loaded = *new std::map<std::string, OpLibrary>;
  MutexLock lock(mutex);

  RIVULET_ASSIGN_OR_RETURN(const std::string file, FileSystem::Default().ReadAll(path));
  if (!file.starts_with("\177ELF")) return InvalidArgument("{} is not a shared library", path);
  const int abi = MarkedAbi(file);
  if (abi < 0)
    return InvalidArgument("{} is not a library of ops: one of its files must say RIVULET_OP_LIBRARY(\"…\")", path);
  if (abi != RIVULET_OP_ABI)
    return FailedPrecondition(
        "{} was built for version {} of the interface of ops, and this program has version {}; build it again against "
        "this program's headers",
        path, abi, RIVULET_OP_ABI);

  // The loader searches its own folders for a name without a slash.
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  if (const auto known = loaded.find(place); known != loaded.end()) return known->second;
  Pending pending;
  internal::CollectedOps() = &pending.ops;
  internal::CollectedKernels() = &pending.kernels;
  void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  internal::CollectedOps() = nullptr;
  internal::CollectedKernels() = nullptr;
  if (handle == nullptr) return InvalidArgument("{} cannot be loaded: {}", path, Loader());
  // From here on the library stays in memory: what it registered points into it.
  const auto* description =
      static_cast<const char*>(dlsym(handle, fmt::format("{}{}", kMarker, RIVULET_OP_ABI).c_str()));
  if (description == nullptr)
    return InvalidArgument("{} is not a library of ops: it does not export what RIVULET_OP_LIBRARY defines", path);
  RIVULET_RETURN_IF_ERROR(CheckAgainstRegistries(pending, path));

  OpLibrary library{path, description, {}, {}};
  for (OpDef& op : pending.ops) {
    library.ops.push_back(op.name);
    OpRegistry::Global().Register(std::move(op));
  }
  for (auto& kernel : pending.kernels) {
    library.kernels.push_back(Described(kernel));
    KernelRegistry::Global().Register(kernel.op, kernel.device, kernel.dtype, std::move(kernel.prepare),
                                      kernel.file.c_str(), kernel.line);
  }
  std::ranges::sort(library.ops);
  std::ranges::sort(library.kernels);
  return loaded[place] = std::move(library);
}

}  // namespace rivulet
