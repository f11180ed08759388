#include "engine/program/op_library.h"

#include <algorithm>
#include <map>

#include "engine/base/mutex.h"
#include "engine/base/user_library.h"
#include "engine/graph/collected_ops.h"
#include "engine/graph/op.h"
#include "engine/program/collected_kernels.h"

namespace rivulet {
namespace {

struct Pending {
  std::vector<OpDef> ops;
  std::vector<internal::CollectedKernel> kernels;
};

constexpr LibraryInterface kInterface = {
    .holds = "ops", .macro = "RIVULET_OP_LIBRARY", .marker = "rivulet_op_library_abi_", .abi = RIVULET_OP_ABI};

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
      return NotFound("{}: the kernel {} ({}:{}) is for an unregistered op", path, Described(kernel), kernel.file,
                      kernel.line);
  }
  return absl::OkStatus();
}

}  // namespace

// A library is loaded completely or not at all. Its initializers register into lists of this thread, which are checked
// against the registries first: with half of a library's ops, graphs would load but not run.
StatusOr<OpLibrary> LoadOpLibrary(const std::string& path) {
  static Mutex mutex;
  static std::map<std::string, OpLibrary>& loaded = *new std::map<std::string, OpLibrary>;
  MutexLock lock(mutex);

  RIVULET_RETURN_IF_ERROR(CheckUserLibrary(path, kInterface));
  const std::string place = LoaderPath(path);
  if (const auto known = loaded.find(place); known != loaded.end()) return known->second;
  Pending pending;
  internal::CollectedOps() = &pending.ops;
  internal::CollectedKernels() = &pending.kernels;
  StatusOr<std::string> description = OpenUserLibrary(path, kInterface);
  internal::CollectedOps() = nullptr;
  internal::CollectedKernels() = nullptr;
  RIVULET_RETURN_IF_ERROR(description.status());
  RIVULET_RETURN_IF_ERROR(CheckAgainstRegistries(pending, path));

  OpLibrary library{path, *std::move(description), {}, {}};
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
