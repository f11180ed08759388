// Asynchronous ops for queues.
#include <algorithm>
#include <cstring>

#include "dataflow/queues/queue.h"
#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

StatusOr<std::shared_ptr<Resource>> MakeQueue(const ResourceContext& context) {
  const Node& node = context.node;
  QueueOptions options;
  const std::string& shared_name = node.attr<std::string>("shared_name");
  options.name = shared_name.empty() ? node.name() : shared_name;
  options.op = std::string(node.type().substr(0, node.type().size() - 2));
  options.component_types = node.attr<std::vector<DType>>("component_types");
  options.shapes = node.attr<std::vector<Shape>>("shapes");
  options.capacity = std::max<int64_t>(node.attr<int64_t>("capacity"), -1);
  options.padding = node.type() == "PaddingFIFOQueueV2";
  options.shuffle = node.type() == "RandomShuffleQueueV2";
  if (options.shuffle) {
    options.min_after_dequeue = node.attr<int64_t>("min_after_dequeue");
    options.seed = static_cast<uint64_t>(node.attr<int64_t>("seed"));
    options.seed2 = static_cast<uint64_t>(node.attr<int64_t>("seed2"));
  }
  options.memory = context.resource_manager.memory();
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Queue> queue, Queue::Create(std::move(options)));
  return std::shared_ptr<Resource>(std::move(queue));
}

Queue& QueueOf(AsyncContext& context) { return static_cast<Queue&>(*context.resources[0]); }

// As in TensorFlow, single operations have no timeouts; RunOptions has one for the run.
Status CheckTimeout(const AsyncContext& context) {
  const int64_t timeout = context.node.attr<int64_t>("timeout_ms");
  if (timeout == -1) return absl::OkStatus();
  return InvalidArgument("Timeout not supported yet: '{}' asks for {} ms", context.node.name(), timeout);
}

Queue::EnqueueDone Enqueued(AsyncDone done) {
  return [done = std::move(done)](const Status& status) {
    if (!status.ok()) return done(status);
    done(std::vector<Tensor>());
  };
}

void Enqueue(AsyncContext& context, AsyncDone done) {
  if (const Status ok = CheckTimeout(context); !ok.ok()) return done(ok);
  // The run may reuse the memory of its fed or computed tensors; the queue keeps copies.
  Queue::Tuple element;
  for (const Tensor& input : context.inputs) {
    StatusOr<Tensor> copy = Tensor::Create(input.dtype(), input.shape());
    if (!copy.ok()) return done(copy.status());
    if (copy->bytes() > 0) std::memcpy(copy->data(), input.data(), input.bytes());
    element.push_back(*std::move(copy));
  }
  QueueOf(context).Enqueue(std::move(element), context.cancel, Enqueued(std::move(done)));
}

void EnqueueMany(AsyncContext& context, AsyncDone done) {
  if (const Status ok = CheckTimeout(context); !ok.ok()) return done(ok);
  QueueOf(context).EnqueueMany(context.inputs, context.cancel, Enqueued(std::move(done)));
}

void Dequeue(AsyncContext& context, AsyncDone done) {
  if (const Status ok = CheckTimeout(context); !ok.ok()) return done(ok);
  QueueOf(context).Dequeue(context.cancel, std::move(done));
}

void DequeueMany(AsyncContext& context, AsyncDone done) {
  if (const Status ok = CheckTimeout(context); !ok.ok()) return done(ok);
  const bool up_to = context.node.type() == "QueueDequeueUpToV2";
  QueueOf(context).DequeueMany(context.inputs[0].flat<int32_t>()[0], up_to, context.cancel, std::move(done));
}

void Close(AsyncContext& context, AsyncDone done) {
  QueueOf(context).Close(context.node.attr<bool>("cancel_pending_enqueues"), Enqueued(std::move(done)));
}

void IsClosed(AsyncContext& context, AsyncDone done) {
  done(std::vector{Tensor::Scalar<bool>(QueueOf(context).closed())});
}

void Size(AsyncContext& context, AsyncDone done) {
  done(std::vector{Tensor::Scalar<int32_t>(static_cast<int32_t>(QueueOf(context).size()))});
}

RIVULET_RESOURCE_OP("FIFOQueueV2", "Queue", MakeQueue);
RIVULET_RESOURCE_OP("PaddingFIFOQueueV2", "Queue", MakeQueue);
RIVULET_RESOURCE_OP("RandomShuffleQueueV2", "Queue", MakeQueue);
RIVULET_ASYNC_OP("QueueEnqueueV2", Enqueue);
RIVULET_ASYNC_OP("QueueEnqueueManyV2", EnqueueMany);
RIVULET_ASYNC_OP("QueueDequeueV2", Dequeue);
RIVULET_ASYNC_OP("QueueDequeueManyV2", DequeueMany);
RIVULET_ASYNC_OP("QueueDequeueUpToV2", DequeueMany);
RIVULET_ASYNC_OP("QueueCloseV2", Close);
RIVULET_ASYNC_OP("QueueIsClosedV2", IsClosed);
RIVULET_ASYNC_OP("QueueSizeV2", Size);

}  // namespace
}  // namespace rivulet
