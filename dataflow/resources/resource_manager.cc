#include "dataflow/resources/resource_manager.h"

#include <algorithm>

#include "engine/base/nearest.h"

namespace rivulet {
namespace {

std::string ContainerOf(std::string_view container) {
  return std::string(container.empty() ? ResourceManager::kDefaultContainer : container);
}

}  // namespace

ResourceManager::~ResourceManager() = default;

StatusOr<std::shared_ptr<Resource>> ResourceManager::Find(std::string_view container, std::string_view type,
                                                          std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = resources_.find(Key(ContainerOf(container), type, name));
  if (found != resources_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, resource] : resources_)
    if (std::get<1>(key) == type) known.push_back(std::get<2>(key));
  return NotFound("the container '{}' has no {} '{}'.{}", ContainerOf(container), type, name, DidYouMean(name, known));
}

// Makes the resource under the lock, so that two concurrent runs get one queue instead of one each with half of the
// elements. A failure leaves no entry: the next run tries again.
StatusOr<std::shared_ptr<Resource>> ResourceManager::FindOrMake(std::string_view container, std::string_view type,
                                                                std::string_view name, const Make& make) {
  MutexLock lock(mutex_);
  std::shared_ptr<Resource>& resource = resources_[Key(ContainerOf(container), type, name)];
  if (resource == nullptr) {
    StatusOr<std::shared_ptr<Resource>> made = make();
    if (!made.ok()) {
      resources_.erase(Key(ContainerOf(container), type, name));
      return made.status();
    }
    resource = *std::move(made);
  }
  return resource;
}

// The generation changes after the entries are removed and before the lock is released: a run that sees the new number
// finds the new contents. Runs reuse lookups while the number is unchanged.
void ResourceManager::Reset(std::span<const std::string> containers) {
  std::vector<std::shared_ptr<Resource>> removed;  // abandoned without the lock: they may call back
  {
    MutexLock lock(mutex_);
    for (auto entry = resources_.begin(); entry != resources_.end();) {
      const std::string& container = std::get<0>(entry->first);
      const bool named = std::any_of(containers.begin(), containers.end(),
                                     [&](const std::string& each) { return ContainerOf(each) == container; });
      if (containers.empty() || named) {
        removed.push_back(std::move(entry->second));
        entry = resources_.erase(entry);
      } else {
        ++entry;
      }
    }
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  for (const auto& resource : removed) resource->Abandon();
}

std::vector<ResourceManager::Listing> ResourceManager::List() const {
  MutexLock lock(mutex_);
  std::vector<Listing> listing;
  for (const auto& [key, resource] : resources_)
    listing.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), resource});
  return listing;
}

}  // namespace rivulet
