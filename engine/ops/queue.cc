// Queues, with TensorFlow's names and attributes; dataflow/queues carries them out.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr std::string_view kNoQueueGradient = "a queue's elements were computed in other runs";

Status QueueHandleShape(InferenceContext& c) {
  c.set_output(0, Shape{});
  return absl::OkStatus();
}

// The shapes of a queue's elements are known only to the queue, at run time.
Status DequeueShape(InferenceContext& c) {
  for (size_t i = 0; i < c.attr<std::vector<DType>>("component_types").size(); ++i)
    c.set_output(static_cast<int>(i), Shape::UnknownRank());
  return absl::OkStatus();
}

Status DequeueManyShape(InferenceContext& c) {
  if (!Shape::Compatible(c.input(1), Shape{}))
    return InvalidArgument("n must be a scalar, not of shape {}", c.input(1).ToString());
  return DequeueShape(c);
}

#define RIVULET_QUEUE(name)                     \
  RIVULET_OP(name)                              \
      .Output("handle: resource")               \
      .Attr("component_types: list(type) >= 1") \
      .Attr("shapes: list(shape) >= 0")         \
      .Attr("capacity: int = -1")               \
      .Attr("container: string = ''")           \
      .Attr("shared_name: string = ''")         \
      .Stateful()                               \
      .Shape(QueueHandleShape)                  \
      .NotDifferentiable(std::string(kNoQueueGradient))

RIVULET_QUEUE("FIFOQueueV2").Doc("A queue that gives its elements in the order in which they came.");
RIVULET_QUEUE("PaddingFIFOQueueV2")
    .Doc("A FIFO queue of elements of different sizes; DequeueMany pads them with zeros to the largest.");
RIVULET_QUEUE("RandomShuffleQueueV2")
    .Attr("min_after_dequeue: int = 0")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Doc(
        "A queue that gives its elements in random order, and keeps min_after_dequeue of them to choose from until it "
        "is closed. The order of operations and the seeds decide the draws, which are TensorFlow's.");

#define RIVULET_QUEUE_OP(name) \
  RIVULET_OP(name).Input("handle: resource").Stateful().NotDifferentiable(std::string(kNoQueueGradient))

RIVULET_QUEUE_OP("QueueEnqueueV2")
    .Input("components: Tcomponents")
    .Attr("Tcomponents: list(type) >= 1")
    .Attr("timeout_ms: int = -1")
    .Shape(NoOutputs)
    .Doc("Puts one element into the queue; waits while it is full.");

RIVULET_QUEUE_OP("QueueEnqueueManyV2")
    .Input("components: Tcomponents")
    .Attr("Tcomponents: list(type) >= 1")
    .Attr("timeout_ms: int = -1")
    .Shape(NoOutputs)
    .Doc("Puts one element for each row of the components into the queue; waits while it is full.");

RIVULET_QUEUE_OP("QueueDequeueV2")
    .Output("components: component_types")
    .Attr("component_types: list(type) >= 1")
    .Attr("timeout_ms: int = -1")
    .Shape(DequeueShape)
    .Doc("Takes one element; waits for it, and is OUT_OF_RANGE when the queue is closed and empty.");

#define RIVULET_DEQUEUE_MANY(name)              \
  RIVULET_QUEUE_OP(name)                        \
      .Input("n: int32")                        \
      .Output("components: component_types")    \
      .Attr("component_types: list(type) >= 1") \
      .Attr("timeout_ms: int = -1")             \
      .Shape(DequeueManyShape)

RIVULET_DEQUEUE_MANY("QueueDequeueManyV2")
    .Doc("Takes n elements as one, along a new first dimension; OUT_OF_RANGE when they can no longer come.");
RIVULET_DEQUEUE_MANY("QueueDequeueUpToV2")
    .Doc("As QueueDequeueManyV2, but takes the remaining elements of a closed queue, at least one.");

RIVULET_QUEUE_OP("QueueCloseV2")
    .Attr("cancel_pending_enqueues: bool = false")
    .Shape(NoOutputs)
    .Doc("After the enqueues that wait now (unless these are cancelled), none is accepted any more.");

RIVULET_QUEUE_OP("QueueIsClosedV2")
    .Output("is_closed: bool")
    .Shape(QueueHandleShape)
    .Doc("Whether the queue is closed.");

RIVULET_QUEUE_OP("QueueSizeV2").Output("size: int32").Shape(QueueHandleShape).Doc("How many elements the queue holds.");

}  // namespace
}  // namespace rivulet
