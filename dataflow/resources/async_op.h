// Asynchronous ops, which wait and so cannot be part of a program: queues, iterators, sends and receives. A session
// partitions a graph at them; the parts between them are programs. An asynchronous op starts after all its inputs,
// releases the thread, and calls back when it is done. Functions must not contain any.
//
//   void Dequeue(AsyncContext& context, AsyncDone done) {
//     static_cast<Queue&>(*context.resources[0]).Dequeue(context.cancel, [done](StatusOr<Tensor> value) {
//       if (!value.ok()) return done(value.status());
//       done(std::vector{*std::move(value)});
//     });
//   }
//   RIVULET_ASYNC_OP("QueueDequeueV2", Dequeue);
//
// The handle of a resource is a separate op. The session's ResourceManager owns the resource under the node's
// attributes `container` and `shared_name` (the node's name if that is empty):
//
//   StatusOr<std::shared_ptr<Resource>> MakeQueue(const ResourceContext& context);
//   RIVULET_RESOURCE_OP("FIFOQueueV2", "Queue", MakeQueue);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "dataflow/resources/resource_manager.h"
#include "engine/base/mutex.h"
#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Objects that live as long as one run. Thread-safe.
class RunScope {
 public:
  // The run's single T, created with T() at the first call: a rendezvous, a table of buffers.
  template <typename T>
  std::shared_ptr<T> Get() {
    MutexLock lock(mutex_);
    std::shared_ptr<void>& object = objects_[typeid(T)];
    if (object == nullptr) object = std::make_shared<T>();
    return std::static_pointer_cast<T>(object);
  }
  // Sets the run's T to a shared object; call before the first Get<T>.
  template <typename T>
  void Put(std::shared_ptr<T> object) {
    MutexLock lock(mutex_);
    objects_[typeid(T)] = std::move(object);
  }
  // Returns a variant scalar that refers to `resource` within this run.
  Tensor Keep(std::shared_ptr<Resource> resource);
  // INVALID_ARGUMENT: not a tensor from this run's Keep.
  StatusOr<std::shared_ptr<Resource>> Kept(const Tensor& variant) const;

 private:
  mutable Mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> objects_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Resource>> kept_ GUARDED_BY(mutex_);
};

// Arguments of an asynchronous op. They stay valid until `done` was called.
struct AsyncContext {
  const Node& node;
  const Graph& graph;                                // has the functions that nodes name
  std::vector<Tensor> inputs;                        // values of inputs that are not resources, in order
  std::vector<std::shared_ptr<Resource>> resources;  // inputs that are resources, in order
  ResourceManager& resource_manager;
  RunScope& scope;
  const CompileOptions& compile;  // for programs of this op
  CancellationToken cancel;       // of the run: OnCancel reports cancellation
  StreamKey rng;
  uint64_t step = 0;
  // Runs a closure on the run's inter-op pool: for lengthy work.
  std::function<void(std::function<void()>)> schedule;
};

// Call exactly once, on any thread, perhaps before the op returns, with one tensor per output of the node, of its type
// and compatible shape. An error ends the run with that error.
using AsyncDone = std::function<void(StatusOr<std::vector<Tensor>>)>;
// Must not block. When `context.cancel` is cancelled it must soon call `done` with CANCELLED: the run waits for it.
using AsyncFn = std::function<void(AsyncContext& context, AsyncDone done)>;

struct ResourceContext {
  const Node& node;    // the handle
  const Graph& graph;  // has the functions that the node names
  ResourceManager& resource_manager;
  const CompileOptions& compile;
};
using ResourceFn = std::function<StatusOr<std::shared_ptr<Resource>>(const ResourceContext&)>;

class AsyncOpRegistry {
 public:
  struct ResourceOp {
    std::string type;  // Resource::type of the named resource
    ResourceFn make;
  };
  static AsyncOpRegistry& Global();
  // A second registration of an op stops the program with both places.
  void Register(std::string op, AsyncFn run, const char* file, int line);
  void RegisterResource(std::string op, std::string type, ResourceFn make, const char* file, int line);
  // Registers an op with output sizes that depend on values. A program can run it only if the values are known at
  // compile time. Otherwise it runs as an asynchronous op, and later ops are compiled for the resulting sizes.
  void RegisterDynamic(std::string op, AsyncFn run, const char* file, int line);
  // Registers the ops of another registry: `family` returns the function for its ops, and nullptr for others. It is
  // called at each lookup, so that registry may grow.
  using Family = const AsyncFn* (*)(std::string_view op);
  void RegisterFamily(Family family) { families_.push_back(family); }
  const AsyncFn* Find(std::string_view op) const;             // nullptr: not an asynchronous op
  const AsyncFn* FindDynamic(std::string_view op) const;      // nullptr: its sizes depend on shapes alone
  const ResourceOp* FindResource(std::string_view op) const;  // nullptr: not a handle (variables are not included)
  bool Has(std::string_view op) const { return Find(op) != nullptr || FindResource(op) != nullptr; }

 private:
  struct Entry {
    AsyncFn run;
    ResourceOp resource;
    AsyncFn run_dynamic;
    std::string registered_at;
  };
  Entry& Add(std::string op, const char* file, int line);
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<Family> families_;
};

namespace internal {
struct AsyncOpRegistration {
  AsyncOpRegistration(const char* op, AsyncFn run, const char* file, int line) {
    AsyncOpRegistry::Global().Register(op, std::move(run), file, line);
  }
  AsyncOpRegistration(const char* op, const char* type, ResourceFn make, const char* file, int line) {
    AsyncOpRegistry::Global().RegisterResource(op, type, std::move(make), file, line);
  }
};
struct DynamicOpRegistration {
  DynamicOpRegistration(const char* op, AsyncFn run, const char* file, int line) {
    AsyncOpRegistry::Global().RegisterDynamic(op, std::move(run), file, line);
  }
};
struct AsyncFamilyRegistration {
  explicit AsyncFamilyRegistration(AsyncOpRegistry::Family family) { AsyncOpRegistry::Global().RegisterFamily(family); }
};
}  // namespace internal

#define RIVULET_ASYNC_OP(op, run) RIVULET_ASYNC_IMPL_(__COUNTER__, op, run)
#define RIVULET_DYNAMIC_OP(op, run) RIVULET_DYNAMIC_IMPL_(__COUNTER__, op, run)
#define RIVULET_DYNAMIC_IMPL_(counter, op, run) RIVULET_DYNAMIC_IMPL2_(counter, op, run)
#define RIVULET_DYNAMIC_IMPL2_(counter, op, run)                                                      \
  [[maybe_unused]] static const ::rivulet::internal::DynamicOpRegistration rivulet_dynamic_##counter( \
      op, run, __FILE__, __LINE__)
#define RIVULET_RESOURCE_OP(op, type, make) RIVULET_ASYNC_IMPL_(__COUNTER__, op, type, make)
#define RIVULET_ASYNC_IMPL_(counter, ...) RIVULET_ASYNC_IMPL2_(counter, __VA_ARGS__)
#define RIVULET_ASYNC_IMPL2_(counter, ...)                                                                    \
  [[maybe_unused]] static const ::rivulet::internal::AsyncOpRegistration rivulet_async_##counter(__VA_ARGS__, \
                                                                                                 __FILE__, __LINE__)

}  // namespace rivulet
