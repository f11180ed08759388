#include "dataflow/resources/async_op.h"

#include <cstring>

namespace rivulet {

// The tensor contains a number, not an address: variants are fed, fetched and copied like any bytes, and an invalid
// one, or one from another run, must cause an error instead of a wild access. Resources are kept until the run ends,
// because the last copy of the tensor cannot be known.
Tensor RunScope::Keep(std::shared_ptr<Resource> resource) {
  MutexLock lock(mutex_);
  kept_.push_back(std::move(resource));
  Tensor variant(DType::kVariant, Shape{});
  const uint64_t id = kept_.size();  // from 1, so that a zero tensor is not a handle
  std::memcpy(variant.data(), &id, sizeof id);
  return variant;
}

StatusOr<std::shared_ptr<Resource>> RunScope::Kept(const Tensor& variant) const {
  if (variant.empty() || variant.dtype() != DType::kVariant || variant.elements() != 1)
    return InvalidArgument("a variant scalar is needed, not {}{}", Name(variant.dtype()), variant.shape().ToString());
  uint64_t id = 0;
  std::memcpy(&id, variant.data(), sizeof id);
  MutexLock lock(mutex_);
  if (id == 0 || id > kept_.size()) return InvalidArgument("the variant means nothing in this run");
  return kept_[id - 1];
}

AsyncOpRegistry& AsyncOpRegistry::Global() {
  static AsyncOpRegistry* const registry = new AsyncOpRegistry();
  return *registry;
}

AsyncOpRegistry::Entry& AsyncOpRegistry::Add(std::string op, const char* file, int line) {
  const auto [entry, inserted] = entries_.try_emplace(std::move(op));
  RIVULET_CHECK(inserted, "the asynchronous op '{}' is registered at {} and at {}:{}", entry->first,
                entry->second.registered_at, file, line);
  entry->second.registered_at = fmt::format("{}:{}", file, line);
  return entry->second;
}

void AsyncOpRegistry::Register(std::string op, AsyncFn run, const char* file, int line) {
  Add(std::move(op), file, line).run = std::move(run);
}

void AsyncOpRegistry::RegisterResource(std::string op, std::string type, ResourceFn make, const char* file, int line) {
  Add(std::move(op), file, line).resource = {std::move(type), std::move(make)};
}

void AsyncOpRegistry::RegisterDynamic(std::string op, AsyncFn run, const char* file, int line) {
  Add(std::move(op), file, line).run_dynamic = std::move(run);
}

const AsyncFn* AsyncOpRegistry::FindDynamic(std::string_view op) const {
  const auto found = entries_.find(op);
  return found == entries_.end() || !found->second.run_dynamic ? nullptr : &found->second.run_dynamic;
}

const AsyncFn* AsyncOpRegistry::Find(std::string_view op) const {
  if (const auto found = entries_.find(op); found != entries_.end())
    return found->second.run ? &found->second.run : nullptr;
  for (const Family family : families_)
    if (const AsyncFn* run = family(op); run != nullptr) return run;
  return nullptr;
}

const AsyncOpRegistry::ResourceOp* AsyncOpRegistry::FindResource(std::string_view op) const {
  const auto found = entries_.find(op);
  return found == entries_.end() || !found->second.resource.make ? nullptr : &found->second.resource;
}

}  // namespace rivulet
