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
  // What kind of thing it is ("Variable", "Queue"): handles of one kind and name mean the same resource.
  virtual std::string_view type() const = 0;
  virtual size_t bytes() const { return 0; }  // memory it holds now, for reports
  // `handle` is a node that names this resource. INVALID_ARGUMENT: it says something else of it than the resource is.
  virtual Status CheckHandle(const Node& handle) const {
    (void)handle;
    return absl::OkStatus();
  }
  // Its container was reset: nobody will find it again. What is blocked in it ends with ABORTED.
  virtual void Abandon() {}
};

// Thread-safe.
class ResourceManager {
 public:
  static constexpr std::string_view kDefaultContainer = "localhost";  // also meant by ""

  // `memory_limit_bytes`: of the variables and arenas of all sessions that share this; 0: no limit. `name` is for
  // errors about it.
  explicit ResourceManager(size_t memory_limit_bytes = 0, std::string name = "the sessions' shared state")
      : memory_(std::make_shared<MemoryBudget>(std::move(name), memory_limit_bytes)) {}
  ~ResourceManager();
  ResourceManager(const ResourceManager&) = delete;
  ResourceManager& operator=(const ResourceManager&) = delete;

  // NOT_FOUND: there is none (names the nearest of its type).
  StatusOr<std::shared_ptr<Resource>> Find(std::string_view container, std::string_view type,
                                           std::string_view name) const;
  // `make` runs with the manager locked, at most once for one resource at a time: it must not call the manager.
  // INVALID_ARGUMENT: what is there has another type().
  using Make = std::function<StatusOr<std::shared_ptr<Resource>>()>;
  StatusOr<std::shared_ptr<Resource>> FindOrMake(std::string_view container, std::string_view type,
                                                 std::string_view name, const Make& make);
  // Forgets and abandons everything in these containers; in all when none is named. What a run holds lives on with it.
  void Reset(std::span<const std::string> containers);

  // Counts resets: while it stays, what was found before is what would be found now.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  struct Listing {
    std::string container, type, name;
    std::shared_ptr<Resource> resource;
  };
  std::vector<Listing> List() const;  // by container, type, name
  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // container, type, name
  mutable Mutex mutex_;
  std::map<Key, std::shared_ptr<Resource>> resources_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> generation_{0};
  const std::shared_ptr<MemoryBudget> memory_;
};

}  // namespace rivulet
