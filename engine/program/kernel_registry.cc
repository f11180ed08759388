#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/base/nearest.h"
#include "engine/graph/op.h"
#include "engine/program/collected_kernels.h"
#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"

namespace rivulet {

std::string_view Name(Device device) { return device == Device::kCpu ? "CPU" : "CUDA"; }

DType KernelDType(const Node& node) {
  const auto type_of = [&](const std::string& name) {
    const auto found = node.attrs().find(name);
    const DType* dtype = found == node.attrs().end() ? nullptr : std::get_if<DType>(&found->second);
    return dtype == nullptr ? DType::kInvalid : *dtype;
  };
  if (const DType dtype = type_of("T"); dtype != DType::kInvalid) return dtype;
  for (const AttrDef& attr : node.op().attrs) {
    if (attr.kind == AttrDef::Kind::kType) return type_of(attr.name);
  }
  return DType::kInvalid;
}

std::vector<internal::CollectedKernel>*& internal::CollectedKernels() {
  thread_local std::vector<CollectedKernel>* collected = nullptr;
  return collected;
}

KernelRegistry& KernelRegistry::Global() {
  static KernelRegistry& registry = *new KernelRegistry;  // never destroyed: kernels may be looked up at exit
  return registry;
}

// Two equal registrations are an error of the program and end it at start-up:
// the kernel of a run would depend on the link order. Libraries loaded later
// are staged first, because their conflicts must be ordinary errors.
void KernelRegistry::Register(std::string op, Device device, DType dtype, PrepareFn prepare, const char* file,
                              int line) {
  if (std::vector<internal::CollectedKernel>* collected = internal::CollectedKernels()) {
    collected->push_back({std::move(op), device, dtype, std::move(prepare), file, line});
    return;
  }
  std::vector<Entry>& entries = entries_[op];
  const std::string place = fmt::format("{}:{}", file, line);
  for (const Entry& entry : entries) {
    RIVULET_CHECK(entry.device != device || entry.dtype != dtype,
                  "the {} kernel of '{}' for {} is registered at {} and again at {}", Name(device), op, Name(dtype),
                  entry.registered_at, place);
  }
  entries.push_back({device, dtype, std::move(prepare), place});
}

StatusOr<const PrepareFn*> KernelRegistry::Find(std::string_view op, Device device, DType dtype) const {
  const auto found = entries_.find(std::string(op));
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, entries] : entries_) names.push_back(name);
    std::sort(names.begin(), names.end());
    return Unimplemented("op '{}' has no kernel for any device.{}", op, DidYouMean(op, names));
  }
  const Entry* general = nullptr;
  std::string there_is;
  for (const Entry& entry : found->second) {
    if (entry.device == device && entry.dtype == dtype) return &entry.prepare;
    if (entry.device == device && entry.dtype == DType::kInvalid) general = &entry;
    there_is += fmt::format("{}{} {}", there_is.empty() ? "" : ", ", Name(entry.device),
                            entry.dtype == DType::kInvalid ? "any type" : Name(entry.dtype));
  }
  if (general != nullptr) return &general->prepare;
  // Strings are 8-byte numbers, so kernels that move or compare integers also work for strings.
  if (dtype == DType::kString && device == Device::kCpu && IsRegisteredFor(op, device, DType::kUint64))
    return Find(op, device, DType::kUint64);
  return Unimplemented("op '{}' has no {} kernel for {}; there is {}", op, Name(device), Name(dtype), there_is);
}

bool KernelRegistry::IsRegisteredFor(std::string_view op, Device device, DType dtype) const {
  const auto found = entries_.find(std::string(op));
  return found != entries_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Entry& entry) {
           return entry.device == device && entry.dtype == dtype;
         });
}

bool KernelRegistry::Has(std::string_view op, Device device) const {
  if (StructuralKind(op) != StructuralOp::kNone) return true;
  const auto found = entries_.find(std::string(op));
  return found != entries_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                [&](const Entry& entry) { return entry.device == device; });
}

}  // namespace rivulet
