// Owner of state that outlives a run: variables, queues and iterators, by container and name. Sessions with the same
// ResourceManager share its content.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "dataflow/resources/memory_budget.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Thread-safe: several runs may use one resource at once.
class Resource {
 public:
  virtual ~Resource() = default;
  // The kind of resource ("Variable", "Queue"): handles of one kind and name refer to the same resource.
  virtual std::string_view type() const = 0;
  virtual size_t bytes() const { return 0; }  // current memory, for reports
  // `handle` is a node that names this resource. INVALID_ARGUMENT: its attributes differ from the resource.
  virtual Status CheckHandle(const Node& handle) const {
    (void)handle;
    return absl::OkStatus();
  }
  // Called when its container was reset, so it is unreachable. Blocked operations end with ABORTED.
  virtual void Abandon() {}
};

// Thread-safe.
class ResourceManager {
 public:
  static constexpr std::string_view kDefaultContainer = "localhost";  // "" also means this container

  // `memory_limit_bytes`: limit of the variables and arenas of all sessions that share this; 0: none. `name` is for
  // errors.
  explicit ResourceManager(size_t memory_limit_bytes = 0, std::string name = "the sessions' shared state")
      : memory_(std::make_shared<MemoryBudget>(std::move(name), memory_limit_bytes)) {}
  ~ResourceManager();
  ResourceManager(const ResourceManager&) = delete;
  ResourceManager& operator=(const ResourceManager&) = delete;

  // NOT_FOUND: no such resource (names the nearest of its type).
  StatusOr<std::shared_ptr<Resource>> Find(std::string_view container, std::string_view type,
                                           std::string_view name) const;
  // `make` runs with the manager locked, at most once at a time per resource: it must not call the manager.
  // INVALID_ARGUMENT: the existing resource has another type().
  using Make = std::function<StatusOr<std::shared_ptr<Resource>>()>;
  StatusOr<std::shared_ptr<Resource>> FindOrMake(std::string_view container, std::string_view type,
                                                 std::string_view name, const Make& make);
  // Removes and abandons all resources in these containers; in all containers if none is named. Runs keep theirs alive.
  void Reset(std::span<const std::string> containers);

  // Number of resets: while it is unchanged, earlier lookups remain correct.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  struct Listing {
    std::string container, type, name;
    std::shared_ptr<Resource> resource;
  };
  std::vector<Listing> List() const;  // sorted by container, type, name
  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // container, type, name
  mutable Mutex mutex_;
  std::map<Key, std::shared_ptr<Resource>> resources_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> generation_{0};
  const std::shared_ptr<MemoryBudget> memory_;
};

}  // namespace rivulet
