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

// Made under the lock, so that two runs which meet a queue for the first time at once get one queue, and not each its
// own with half of the elements. What cannot be made leaves no entry: the next run tries again.
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

// The generation is counted after the entries are gone and before the lock is: whoever sees the new number and looks
// again finds what is there now. Runs keep what they found as long as the number stays.
void ResourceManager::Reset(std::span<const std::string> containers) {
  std::vector<std::shared_ptr<Resource>> removed;  // told outside of the lock: they may call back
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
